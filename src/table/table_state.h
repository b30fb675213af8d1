#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "table/arena.h"
#include "table/cold_disk.h"
#include "table/cold_rows.h"
#include "table/eviction.h"
#include "table/new_rows.h"
#include "table/row_copy.h"
#include "table/row_index.h"
#include "table/row_layout.h"
#include "table/row_lookup.h"
#include "table/row_store.h"
#include "table/table.h"

namespace simurgh {

// The parts of a table, and how rows are created and evicted.
//
// An expired row keeps its entry in the eviction queue, which cannot be found there. The entry
// serves the next row with that number: use_count of a free row shows whether it is queued. Rows
// are evicted for space only when none is free, so the queue never returns a free row.
struct Table::State {
  State(const TableConfig& table_config, uint64_t seed, Arena& table_arena,
        MemoryBudget* memory_budget, ColdDisk* cold_disk);
  // Returns what is granted and not touched.
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Reads the existing rows of a recency below `open_from`. Fills `open` with the positions of the
  // other existing rows, and `absent` with those of ids without a row.
  void PullPresent(std::span<const uint64_t> ids, EncodedRows to, uint32_t now, uint32_t open_from);
  // Brings cold rows of ids in `absent` back and reads them, before any row is created. Removes
  // them from `absent`.
  // Adds rows of a recency from `open_from` on to `open` instead.
  void PullCold(std::span<const uint64_t> ids, EncodedRows to, uint32_t now, uint32_t open_from,
                PullReport& pulled);
  // Handles the ids in `absent` one by one, and creates rows where admission and space allow.
  void PullAbsent(std::span<const uint64_t> ids, EncodedRows to, uint32_t now, PullReport& pulled);
  // Returns whether `rows_more` rows can be created without evicting or rejecting any.
  bool CanCreateAll(size_t rows_more) const {
    return index.size() + rows_more <= row_limit && !file_full && !expiry.active() &&
           admission.always() && cold_rows() == 0;
  }
  // Cold rows, whose ids are absent in memory. Without a disk there are none.
  uint64_t cold_rows() const { return cold == nullptr ? 0 : cold->size(); }
  uint64_t all_rows() const { return index.size() + cold_rows(); }
  // Fetches the cold rows of ids. Empty after an error, which is the cold_failure from then on.
  std::span<const ColdRows::Row> FetchCold(std::span<const uint64_t> ids);
  // The same for those at some positions; Row::at is an index of `positions`.
  std::span<const ColdRows::Row> FetchColdAt(std::span<const uint64_t> ids,
                                             std::span<const size_t> positions);
  // Brings a fetched row back to memory and returns its number. Returns kNoRow if it has gone or
  // expired meanwhile, or stays on disk because neither memory nor disk has room for another one:
  // ReclaimCold() may make some.
  uint32_t Warm(const ColdRows::Row& cold_row, uint32_t now);
  // Neither memory nor disk has room to bring a row back.
  void FailToWarm();
  // Frees space on disk. Call the first after each request; the second waits for the disk.
  void MaintainCold();
  void ReclaimCold();

  // Does what PullAbsent() does, in batches. Requires CanCreateAll(ids.size()) and at most
  // BatchLookup::kBlock ids.
  void PullNew(std::span<const uint64_t> ids, EncodedRows to, uint32_t now, PullReport& pulled);
  // Number of bytes of a record that a pull reads.
  uint64_t PulledBytes() const { return sizeof(RowHeader) + store.format().weight_bytes(); }

  // Begins a training pull and returns the recency of its rows.
  uint32_t BeginPull(uint64_t stamp);
  void Touch(uint32_t row, uint32_t stamp) { CountUse(rows.header(row), stamp); }

  // Returns whether a row has expired and waits for the sweep.
  bool HasExpired(uint32_t row) const {
    return rows.header(row).recency < suspect_below && Expired(row).has_value();
  }
  std::optional<EvictionCause> Expired(uint32_t row) const;
  std::optional<EvictionCause> Expired(const RowHeader& header, const std::byte* values) const;
  // Returns !HasExpired(row). Requires that a pull or push is about to change the row: a copy in
  // progress gets it first, and the change is noted. keeps_stamp: see RowCopy::Save().
  bool Claim(uint32_t row, bool keeps_stamp) {
    return rows.header(row).recency >= suspect_below || ClaimSuspect(row, keeps_stamp);
  }
  bool ClaimSuspect(uint32_t row, bool keeps_stamp);
  // Rows of smaller recency have not been pulled since the last copy began. 0: no copy needs
  // to know.
  uint32_t CopyBound() const;
  // Call when the copy or the bound of expiry has changed.
  void SetSuspects();

  // Ensures that `rows_more` rows of an arena in a file have memory. Errors: see
  // ArenaRegion::Commit().
  Status Commit(size_t rows_more) {
    SIMURGH_RETURN_IF_ERROR(store.Commit(rows_more));
    SIMURGH_RETURN_IF_ERROR(index.Commit(rows_more));
    return queue.Commit(rows_more);
  }
  // Commits memory for the rows of a pull. After a failure, which sets file_full, rows are
  // committed one by one; when that fails as well, new rows reuse the memory of others.
  void CommitRows(size_t rows_more) {
    file_full = !Commit(rows_more).ok();
    file_used_up = false;
  }

  // Returns whether there is memory for the id's admission counters.
  bool MayCount(uint64_t id);

  // Returns kNoRow when the table is full and config.when_full does not evict. Requires that the id
  // has no row.
  uint32_t Create(uint64_t id, uint32_t stamp);
  // Creates a row with this header, as Create() does. The caller fills in the values.
  uint32_t Put(const RowHeader& header, uint32_t now);
  // Removes an expired row.
  void Expire(uint32_t row) { Remove(row, *Expired(row), /*queued=*/true); }
  // Examines the next `count` rows and removes expired ones.
  void Sweep(size_t count);

  // Most rows in memory.
  uint64_t MemoryRows() const {
    return cold == nullptr || config.memory_rows == 0
               ? config.capacity_rows
               : std::min(config.memory_rows, config.capacity_rows);
  }

  uint64_t EvictedForSpace() const {
    return counts.evicted_for[static_cast<size_t>(EvictionCause::kCapacity)] +
           counts.evicted_for[static_cast<size_t>(EvictionCause::kMemory)];
  }

  TableConfig config;
  const Arena& arena;
  Admission admission;
  RowStore store;
  const Rows& rows;
  RowIndex index;
  BatchLookup lookup;
  RecencyQueue queue;
  Expiry expiry;
  RowCopy copy;
  ChangeLog changes;
  std::unique_ptr<ColdRows> cold;  // Null without a disk.
  Status cold_failure;  // Rows are lost, or cannot come back. All requests fail from then on.
  Status cold_refusal;  // Why the disk took no row.
  std::function<Expiry::Clock::time_point()> clock = Expiry::Clock::now;
  std::function<void(uint64_t id, EvictionCause)> on_evict;  // Called before the row is released.
  DistinctCounter distinct;
  TableStats counts;

  uint64_t stamp_origin = 0;  // A row's stamp is this plus its recency.
  uint64_t newest_stamp = 0;
  uint64_t copy_stamp = 0;     // Pulls get this stamp or a newer one; 0 if CopyBound() is 0.
  uint32_t suspect_below = 0;  // Rows of smaller recency may have expired or are below CopyBound().
  // Positions in a request, of PullPresent(); kept to reuse their memory.
  std::vector<size_t> absent;
  std::vector<size_t> open;
  std::vector<uint64_t> absent_ids;

  MemoryBudget* const budget;
  uint64_t row_limit;         // Capacity, or less while the budget has not granted more.
  bool file_full = false;     // The last pull could not commit memory for all its rows.
  bool file_used_up = false;  // Nor for one row.

 private:
  void Rebase();
  // Free rows have committed memory even when the file system is full.
  bool HasSpace() {
    return index.size() < row_limit && all_rows() < config.capacity_rows &&
           (!file_full || index.size() < store.carved_rows() || CommitOne());
  }
  bool CommitOne() {
    if (!file_used_up) file_used_up = !Commit(1).ok();
    return !file_used_up;
  }
  bool MakeSpace(uint32_t now);
  bool Acquire(uint32_t now, uint32_t& row);
  bool GrowLimit();
  bool Request(uint64_t bytes, uint64_t& granted, uint64_t waiting);
  void Evict(uint32_t now, EvictionCause cause);
  // Evicts the least recently used row, cold or not. Returns false after an error of the disk.
  bool EvictOldest(uint32_t now);
  // Makes room for a row in memory, which adds one to the table, or not. Returns false if that
  // needs an eviction.
  bool MakeRoom(uint32_t now, bool adds_row);
  // Moves the least recently used row to the disk. Returns false if the disk takes none.
  bool Cool(uint32_t now, bool adds_row);
  // Evicts the oldest cold rows, so that the disk takes another one. Returns false if it cannot.
  bool EvictColdRows();
  // Evicts the oldest cold row. Returns false after an error of the disk.
  bool EvictOldestCold(EvictionCause cause);
  // Returns whether the budget allows one more cold row.
  bool AllowsColdRow();
  void Remove(uint32_t row, EvictionCause cause, bool queued);
  void RemoveCold(const ColdRows::Row& cold_row, EvictionCause cause);
  // Takes a row out of memory.
  void Leave(uint32_t row, bool queued);

  uint32_t sweep_at = 0;
  uint64_t granted_for_rows = 0;  // Bytes granted and not known to be touched.
  uint64_t granted_for_sketches = 0;
  uint64_t sketches_left = 0;  // Unused ones of the last grant.
  bool denied = false;         // The budget denied a request of this pull.
  uint64_t cold_allowed = 0;   // Number of cold rows that the budget allows.
  bool cold_denied = false;    // It denied more in this pull.
  mutable std::vector<float> scratch;
};

}  // namespace simurgh
