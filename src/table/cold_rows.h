#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "table/cold_disk.h"
#include "table/cold_index.h"
#include "table/row_copy.h"
#include "table/row_layout.h"

namespace simurgh {

// Rows of a table that are on disk instead of in memory: whole records, optimizer state included.
//
// Records are appended to segments of 8 MiB and never change there. A row that returns to memory
// leaves a gap. When gaps take more than a fifth, neighbouring segments are written anew without
// them. Segments and their records stay in the order of the appends, so the first one is the
// oldest. Each record has a checksum. Records that are not written yet, at most 256 KiB, are in
// memory.
//
// After an error of a read, rows may be lost: the owner must use none of them.
//
// Threads: one owner. Lifetime: the disk outlives the rows.
class ColdRows {
 public:
  // A record that was found. Lifetime: until the next Fetch() or Oldest(), or the end of the
  // visitor's call.
  struct Row {
    size_t at;       // Position of its id.
    uint32_t place;  // Its place, until the next Maintain().
    uint32_t generation;
    std::byte* record;
    const RowHeader& header() const { return *reinterpret_cast<const RowHeader*>(record); }
  };

  // Records that are read before they are needed. The destructor forgets them.
  //
  // Threads: of the rows. Lifetime: may outlive the rows.
  class Ahead {
   public:
    Ahead() = default;
    Ahead(Ahead&& other) noexcept = default;
    Ahead& operator=(Ahead&&) = delete;
    ~Ahead() {
      const auto rows = rows_.lock();
      if (rows != nullptr && read_ != nullptr) (*rows)->Forget(*read_);
    }

    // Returns whether all have been read, one cannot be, or the rows are gone.
    bool done() const {
      return rows_.expired() || (IsDone(read_) && std::ranges::all_of(others_, &Ahead::IsDone));
    }
    // Returns whether all rows have been fetched, have left the disk, or moved there.
    bool is_used_up() const { return read_ == nullptr || read_->unused == 0 || rows_.expired(); }

   private:
    friend class ColdRows;
    struct Read {
      std::vector<uint32_t> places;
      std::vector<uint64_t> offsets;   // In the file.
      uint64_t unused = 0;             // Records that may be of use.
      std::vector<std::byte> records;  // Valid once it is done.
      std::atomic<bool> done = false;
      Status status;
    };
    static bool IsDone(const std::shared_ptr<Read>& read) { return read == nullptr || read->done; }
    std::weak_ptr<ColdRows*> rows_;
    std::shared_ptr<Read> read_;                 // Null: none.
    std::vector<std::shared_ptr<Read>> others_;  // Earlier ones that read some of the rows.
  };

  ColdRows(ColdDisk& disk, const RowLayout& layout);

  // Begins to read the rows of ids that are on disk, for a Fetch() later.
  Ahead ReadAhead(std::span<const uint64_t> ids, ColdDisk::Urgency urgency);

  uint64_t size() const { return index_.size(); }
  // Estimates the memory of an index of many rows, and their space on disk while rows come and go.
  static uint64_t MemoryFor(uint64_t rows) { return rows * 21 / 2; }
  static uint64_t DiskFor(uint64_t rows, const RowLayout& layout) {
    return rows * (layout.stride_bytes + sizeof(uint32_t)) * 13 / 10;
  }

  // Memory of the index and the segments' maps.
  uint64_t bytes_used() const;
  uint64_t segments() const { return order_.size(); }
  uint64_t disk_bytes() const { return (order_.size() + dropped_.size()) * disk_.segment_bytes(); }

  // Appends a record, of which these changes are noted. is_more: false if another row is removed
  // in turn. Errors: RESOURCE_EXHAUSTED if the disk is full; nothing has changed then.
  Status Add(const std::byte* record, const ChangeLog::Noted& noted = {}, bool is_more = true);

  // Reads the rows of ids, in their order. Ids without a row are left out.
  // Errors: of the disk; DATA_LOSS for a wrong checksum.
  StatusOr<std::span<const Row>> Fetch(std::span<const uint64_t> ids);
  // Whether the id may have a row; false if it has none.
  bool MayHave(uint64_t id) const;
  // Whether a fetched row is still here.
  bool Has(const Row& row) const;
  // Removes a fetched row. Returns its changes.
  ChangeLog::Noted Remove(const Row& row);
  // Reads the oldest row. Requires size() > 0. Errors: of Fetch().
  StatusOr<Row> Oldest();
  // Frees segments without rows. Fetched rows in them are gone.
  void FreeEmpty();

  // Reads the next records of a round through all rows, about `count`, if some may be older than
  // `recency`. Errors: of Fetch().
  Status Scan(size_t count, uint32_t recency, absl::FunctionRef<void(const Row&)> visit);
  // Reads all rows. Errors: of Fetch().
  Status ForEach(absl::FunctionRef<void(const Row&)> visit);

  // Frees space in small steps, unless there is little to gain. A call writes at most four blocks
  // anew. Over time these are about four for each block that rows fill, or more if that frees too
  // little. Segments are read on the disk's thread, unless it is late. Ends the validity of places.
  // Call regularly. Errors: of Fetch().
  Status Maintain();
  // Frees what Maintain() would free over time, up to a window. Waits for the disk. Errors: as
  // above.
  Status Reclaim();

  // Lowers the recency of all rows, to 0 at least. Errors: of the disk.
  Status Rebase(uint32_t shift);

  // A copy of all rows as they are now. They stay on disk until it has them, or EndCopy(). base:
  // see ChangeLog::Begin().
  void BeginCopy(CopyBase base);
  // Rows that changed between the copy's base and its begin. The second leaves the others out of
  // the copy, of which no row may have been taken.
  uint64_t CountChanges() const;
  void CopyChanges();
  void EndCopy();
  // Appends about `count` rows of the copy, or fewer. Returns how many. Errors: of Fetch().
  StatusOr<uint64_t> TakeCopied(size_t count, std::vector<std::byte>& records);
  bool copy_done() const { return copy_.empty(); }

  struct Counts {
    uint64_t added = 0;
    uint64_t late = 0;  // Fetched rows that the caller had to wait for.
    uint64_t removed = 0;
    uint64_t read_bytes = 0;
    uint64_t written_bytes = 0;
    uint64_t compacted_bytes = 0;  // Part of written_bytes.
  };
  const Counts& counts() const { return counts_; }

 private:
  static constexpr uint64_t kBlocks = 32;  // Blocks of a segment.

  struct Segment {
    uint64_t offset = 0;
    uint32_t generation = 0;  // Counts the segments of this number.
    uint32_t filled = 0;      // Records.
    uint32_t live = 0;
    uint32_t shift = 0;            // Its records' recency is lower by this.
    uint32_t oldest = UINT32_MAX;  // The least recency of a record, before the shift.
    uint32_t pins = 0;             // Copies and rewrites that need it.
    std::vector<uint64_t> bits;    // The live records.
    // Live records with such changes; empty: none.
    std::vector<uint64_t> copied;
    std::vector<uint64_t> recent;
    bool is_live(uint32_t record) const { return (bits[record / 64] >> (record % 64) & 1) != 0; }
  };

  // The segment that is being filled, and its block that is not written.
  struct Writer {
    uint32_t segment = UINT32_MAX;
    AlignedBuffer block;
    bool is_open() const { return segment != UINT32_MAX; }
  };

  // Neighbours that are written anew, a block at a time. Rows move when their block is on disk.
  struct Rewrite {
    struct Move {
      uint64_t hash;
      uint32_t from;  // Place.
      uint32_t to;    // Record of the writer's segment.
    };
    struct Read {
      uint32_t segment;
      uint32_t first;  // Block.
      uint32_t end;
      AlignedBuffer blocks;  // Valid once it is done.
      std::atomic<bool> done = false;
      Status status;
    };
    std::vector<uint32_t> old;  // Their segments.
    size_t pinned = 0;          // From here on they are pinned.
    size_t at = 0;              // The next one.
    uint32_t block = 0;         // Its next block.
    Writer writer;
    bool is_in_order = false;  // The writer's segment.
    std::vector<Move> moves;   // Records of the writer's block.
    std::shared_ptr<Read> read;
  };

  struct CopiedSegment {
    uint32_t segment;
    uint32_t block = 0;  // The next one.
    uint32_t filled;
    std::vector<uint64_t> bits;
  };

  uint32_t PlaceOf(uint32_t segment, uint32_t record) const {
    return segment * per_segment_ + record;
  }
  uint64_t OffsetOf(const Segment& segment, uint32_t record) const {
    return segment.offset + record / per_block_ * block_bytes_ +
           record % per_block_ * record_bytes_;
  }
  // Whether a record is in the writer's block.
  bool IsUnwritten(uint32_t segment, uint32_t record) const;

  StatusOr<uint32_t> NewSegment();
  // Tells records of a place apart that were there one after the other.
  uint64_t SeedOf(uint32_t place) const {
    return place | uint64_t{segments_[place / per_segment_].generation} << 32;
  }
  void FreeSegment(uint32_t segment);
  // Appends to the writer's segment, which has room. Errors: of the disk.
  Status Append(Writer& writer, const std::byte* record);
  // Makes a record live, of which these changes are noted, or dead.
  void SetLive(Segment& segment, uint32_t record, const ChangeLog::Noted& noted);
  ChangeLog::Noted SetDead(uint32_t segment, uint32_t record);
  ChangeLog::Noted NotedOf(const Segment& segment, uint32_t record) const;
  // Writes the block that is not full.
  Status WriteBlock(Writer& writer);
  // Reads a block of a segment and checks its live records. bits: which are live.
  Status ReadBlock(uint32_t segment, uint32_t block, uint32_t filled,
                   const std::vector<uint64_t>& bits);
  // Checks the live records of a block, and applies the shift of its segment.
  Status CheckBlock(std::byte* records, uint32_t segment, uint32_t block, uint32_t filled,
                    const std::vector<uint64_t>& bits) const;
  // Reads the records at the places of found_ into the scratch, and sets them. Errors: of Fetch().
  Status ReadFound();
  // Checks a record in memory, and applies the shift of its segment.
  Status Check(std::byte* record, const Segment& segment, uint32_t place) const;
  // Calls visit for the live records of the block that was read.
  void VisitBlock(uint32_t segment, uint32_t block, uint32_t filled,
                  const std::vector<uint64_t>& bits, absl::FunctionRef<void(const Row&)> visit);
  // Frees segments in dropped_ that are not pinned any more.
  void FreeDropped();
  // Ends the use of records that were read ahead, all or one.
  void Forget(const Ahead::Read& read);
  void ForgetAt(uint32_t place);
  // Returns the record at a place if it has been read ahead, or null.
  const std::byte* FindAhead(uint32_t place);
  // Whether the full segments hold at most this share of the rows that fit.
  bool HasGaps(uint64_t percent) const;
  // Chooses neighbours to write anew. Returns false if there is little to gain.
  bool BeginRewrite();
  // Writes up to `count` blocks anew, and lowers it by their number. now: waits for the disk.
  // Errors: of Fetch().
  Status RewriteBlocks(uint32_t& count, bool now);
  // Finds the next block with live records. Returns false at the end.
  bool FindRewritten();
  void ReadRewritten(bool now);
  // Writes the next block anew, which has been read.
  Status RewriteBlock();
  // Lets the index refer to the block that was written.
  void ApplyMoves();
  // Rows that have not moved stay where they are.
  void EndRewrite();

  ColdDisk& disk_;
  const uint64_t stride_bytes_;
  const uint64_t record_bytes_;  // With its checksum.
  const uint64_t block_bytes_;
  const uint32_t per_block_;
  const uint32_t per_segment_;
  ColdIndex index_;
  std::vector<Segment> segments_;
  std::vector<uint32_t> unused_;   // Numbers of segments.
  std::deque<uint32_t> order_;     // Segments, the oldest first.
  std::vector<uint32_t> dropped_;  // Segments without rows that are pinned.
  Writer writer_;
  std::unique_ptr<Rewrite> rewrite_;  // Null: none.
  uint32_t rewrites_due_ = 0;         // Blocks.
  size_t scan_segment_ = 0;           // In order_.
  uint32_t scan_block_ = 0;
  std::deque<CopiedSegment> copy_;
  // Record number of a read, by place.
  struct AheadRecord {
    std::shared_ptr<Ahead::Read> read;
    uint32_t number;
    bool is_used = false;
  };
  absl::flat_hash_map<uint32_t, AheadRecord> ahead_;
  std::shared_ptr<ColdRows*> self_ = std::make_shared<ColdRows*>(this);
  std::vector<Row> found_;
  std::vector<ColdDisk::Part> parts_;
  std::vector<const std::byte*> sources_;  // Where records of found_ are; null: on disk.
  // The block of the oldest row, for Oldest().
  struct OldestBlock {
    uint32_t segment = UINT32_MAX;
    uint32_t block = 0;
    uint32_t filled = 0;
    AlignedBuffer records;
  };
  OldestBlock oldest_;
  bool has_empty_ = false;  // Segments without rows may be in order_.
  Counts counts_;
};

}  // namespace simurgh
