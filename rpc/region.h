#pragma once

// Payload in shared memory.
//
// Each end writes its own region and its own board; the peer maps both to read. A frame names
// segments of the sender's region. The receiver borrows such a segment: it reads the bytes until it
// stores the segment's generation in the segment's slot of its board. The sender reads nothing but
// that board from the peer, so a false board harms only what is sent to its owner.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/status.h"
#include "rpc/message.h"

namespace simurgh::rpc {

// Alignment of borrowed bytes, so that they can be used in place.
inline constexpr uint64_t kBorrowAlignment = 64;

// Laid out as on the wire.
struct BorrowedSegment {
  uint64_t offset = 0;      // Position in the sender's region; a multiple of kBorrowAlignment.
  uint32_t slot = 0;        // Below kMaxBorrowedSegments, or kNotBorrowed.
  uint32_t generation = 0;  // Distinguishes successive uses of the slot.
};
static_assert(sizeof(BorrowedSegment) == 16 && alignof(BorrowedSegment) == 8);

// The slot of a segment whose bytes are in the frame.
inline constexpr uint32_t kNotBorrowed = 0xffff'ffff;

inline constexpr uint32_t kMaxBorrowedSegments = 4'096;  // Maximum per region at a time.
inline constexpr size_t kBoardBytes = kMaxBorrowedSegments * sizeof(uint32_t);

// Blocks of a region are whole pages, so that their pages can be released to the system.
inline constexpr uint64_t kPageBytes = 4'096;

// Memory that one process writes and another can only read, and the segments in it.

// A mapped file. Move-only.
class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

 private:
  std::span<std::byte> bytes_;
};

// Memory that this process writes and the peer reads. Its size is fixed, so that reads of the peer
// cannot fault. Pages exist from their first use until they are released.
struct SharedMemory {
  Mapping mapping;      // Read and write.
  FileDescriptor file;  // Passed to the peer; read-only, also for mmap.

  // Errors: UNAVAILABLE (no descriptors, no memfd, no /proc).
  static StatusOr<SharedMemory> Create(const char* name, size_t size);
};

// Maps the peer's memory file to read.
// Errors: INVALID_ARGUMENT for a file that is not a memfd, can shrink, or has a size outside
// [min_size, max_size]; UNAVAILABLE when it cannot be mapped.
StatusOr<Mapping> MapPeerMemory(const FileDescriptor& file, uint64_t min_size, uint64_t max_size);

// First-fit allocator of page ranges. It prefers low offsets, so that recently used pages, which
// are still in the cache, are used again.
//
// Invariants: free ranges are disjoint, not empty and not adjacent.
//
// Threads: one at a time.
class BlockSpace {
 public:
  struct Range {
    uint64_t offset = 0;
    uint64_t length = 0;
    bool operator==(const Range&) const = default;
  };

  // size: a multiple of kPageBytes.
  explicit BlockSpace(uint64_t size);

  // A block of at least `bytes` bytes, or nullopt if no free range is large enough.
  // Requires bytes > 0.
  std::optional<Range> Allocate(uint64_t bytes);
  // Requires a block that Allocate returned.
  void Free(Range block);

  uint64_t used_bytes() const { return used_bytes_; }
  // Maximum of used_bytes() since the last TakeIdle.
  uint64_t peak_bytes() const { return peak_bytes_; }

  // Returns free ranges whose pages the caller releases; they count as untouched from then on.
  // Keeps `keep` free bytes (whole pages) plus peak use minus current use.
  std::vector<Range> TakeIdle(uint64_t keep);

 private:
  std::map<uint64_t, uint64_t> free_;  // Offset -> length.
  uint64_t used_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  uint64_t touched_end_ = 0;  // Pages from this offset on do not exist yet.
};

// The part of a range that is whole pages of the system; its length is 0 if there is none. A page
// of the system may be larger than kPageBytes: 64-bit ARM also has pages of 64 KiB.
BlockSpace::Range WholePages(BlockSpace::Range range, uint64_t page_bytes);

// This end's memory that one peer can read: blocks for segments, and the segments that are lent.
//
// A block is in use while it has an owner or is lent. The peer returns a lent segment, at the
// latest by the end of the connection.
//
// Threads: any, except Connect() and TakeFile(). Lifetime: an owned block keeps the region.
class OutgoingRegion : public std::enable_shared_from_this<OutgoingRegion> {
 public:
  // bytes: rounded up to pages, which are allocated on use.
  // Errors: UNAVAILABLE.
  static StatusOr<std::shared_ptr<OutgoingRegion>> Create(uint64_t bytes);

  // The file for the peer. Requires to be called once.
  FileDescriptor TakeFile() { return std::move(memory_.file); }

  // Sets the peer's board and enables Lend(). Requires kBoardBytes.
  void Connect(Mapping board);

  // A page-aligned block, or nullopt if there is no space or the connection has ended.
  std::optional<SegmentBuffer> Allocate(size_t bytes);

  // Returns whether the bytes are in this region.
  bool Holds(std::span<const std::byte> bytes) const;

  // Lends bytes of one block, which must not change afterwards. Returns nullopt if they are not in
  // a live block, are misaligned, or all slots are in use.
  std::optional<BorrowedSegment> Lend(std::span<const std::byte> bytes);

  // Takes back a segment that has not been sent.
  void TakeBack(const BorrowedSegment& segment);

  // The connection has ended. The peer can read lent bytes at any time, so no block is
  // allocated and no page is released afterwards.
  void Close();

  // Releases pages that have not been used since the last call, except `keep` bytes (whole pages).
  // Returns whether a later call may release more without new allocations.
  bool Trim(uint64_t keep);

  // Bytes of owned and lent blocks.
  uint64_t used_bytes();

 private:
  struct Block {
    uint64_t length = 0;
    uint64_t uses = 1;  // Owner and lent segments.
  };
  struct Lent {
    uint32_t slot = 0;
    uint64_t block = 0;  // Offset of the block.
  };

  explicit OutgoingRegion(SharedMemory memory)
      : memory_(std::move(memory)), space_(memory_.mapping.size()) {}

  // Frees the slots and blocks that the peer has returned.
  void Reclaim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends one use of the block at `offset`.
  void Release(uint64_t offset) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SharedMemory memory_;

  Mutex mutex_;
  BlockSpace space_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Block> blocks_ ABSL_GUARDED_BY(mutex_);  // Keyed by offset.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Mapping board_ ABSL_GUARDED_BY(mutex_);
  std::vector<Lent> lent_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> generations_ ABSL_GUARDED_BY(mutex_);  // Current generation of each slot.
};

// The segments that this end borrows from its peer's region, and the board that returns them.
//
// Threads: one; any thread may destroy the owner of a borrowed segment.
// Lifetime: a borrowed segment keeps the region, also after the connection has ended.
class IncomingRegion : public std::enable_shared_from_this<IncomingRegion> {
 public:
  // Maximum size of a region.
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 40;

  // Creates the board.
  // Errors: UNAVAILABLE.
  static StatusOr<std::shared_ptr<IncomingRegion>> Create();

  // The board's file for the peer. Requires to be called once.
  FileDescriptor TakeBoard() { return std::move(board_.file); }

  // Maps the peer's region.
  // Errors: those of MapPeerMemory.
  Status Connect(const FileDescriptor& file);

  // Bytes of the peer's region, valid until the owner is destroyed. A malicious peer can change
  // them at any time: code that relies on checked values must copy first. Errors: DATA_LOSS for a
  // segment outside the region, misaligned, in a slot that is in use, or not of the slot's next
  // generation. Threads: one at a time.
  StatusOr<ReceivedSegment> Borrow(const BorrowedSegment& segment, uint64_t length);

 private:
  explicit IncomingRegion(SharedMemory board) : board_(std::move(board)) {}

  SharedMemory board_;
  Mapping region_;
  std::array<std::atomic<bool>, kMaxBorrowedSegments> held_{};
  std::array<uint32_t, kMaxBorrowedSegments> generations_{};  // Last generation of each slot.
};

}  // namespace simurgh::rpc
