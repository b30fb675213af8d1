#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "simurgh/table/table.h"
#include "table/admission.h"
#include "table/arena.h"
#include "table/batch_lookup.h"
#include "table/expiry.h"
#include "table/recency_queue.h"
#include "table/row_index.h"
#include "table/row_layout.h"
#include "table/row_store.h"

namespace simurgh {

// What a table is made of, and how its rows come and go.
//
// A row that expires leaves its entry in the eviction queue, which cannot find it there: the entry
// serves the next row of that number. use_count of a free row says whether there is one. Rows are
// only evicted for room when none is free, so the queue never hands out a free one.
struct Table::State {
  State(const TableConfig& table_config, uint64_t seed, Arena& table_arena);

  // Pulls the rows that are there; `absent` are the positions of the others.
  void PullPresent(std::span<const uint64_t> ids, EncodedRows to, uint32_t now);
  // Pulls the rows that PullPresent() has left over, one after the other, making them or not.
  void PullAbsent(std::span<const uint64_t> ids, EncodedRows to, uint32_t now, PullCounts& pulled);
  // Whether a pull that makes so many rows takes none away and refuses none.
  bool MakesAll(size_t rows_more) const {
    return index.size() + rows_more <= row_limit && !file_full && !expiry.active() &&
           admission.always();
  }
  // The same as PullAbsent(), many at a time. Requires MakesAll(ids.size()) and at most
  // BatchLookup::kBlock ids.
  void PullNew(std::span<const uint64_t> ids, EncodedRows to, uint32_t now, PullCounts& pulled);
  // What a pull reads of a record.
  uint64_t PulledBytes() const { return sizeof(RowHeader) + store.format().weight_bytes(); }
  uint32_t Lookup(uint64_t id) const { return index.Find(id, RowIndex::Hash(id)); }

  // Begins a training pull: returns its stamp as rows bear it.
  uint32_t BeginPull(uint64_t stamp);
  void Touch(uint32_t row, uint32_t stamp) { CountUse(rows.header(row), stamp); }

  // Counts how long ago the row of a hit had been pulled before. Requires that it is not yet
  // touched.
  void NoteAge(uint32_t row, uint32_t stamp) {
    ++counts.pulled_before[std::bit_width(stamp - rows.header(row).recency)];
  }

  // Whether a row has expired, and is only there because nobody has taken it away yet.
  bool IsGone(uint32_t row) const {
    return rows.header(row).recency < suspect_below && Expired(row).has_value();
  }
  std::optional<EvictionCause> Expired(uint32_t row) const;

  // Sees to it that so many more rows have memory, where that can be missing; else there is no room
  // but that of others.
  void SecureRows(size_t rows_more) {
    file_full = !(store.Commit(rows_more).ok() && index.Commit(rows_more).ok() &&
                  queue.Commit(rows_more).ok());
  }

  // Whether there is memory for what admission counts of an id.
  bool MayCount(uint64_t id);

  // kNoRow when there is no room and config.when_full makes none. Requires that the id has no row.
  uint32_t Create(uint64_t id, uint32_t stamp);
  // Takes an expired row away.
  void Expire(uint32_t row) { Remove(row, *Expired(row), /*queued=*/true); }
  // Looks at the next `count` rows for expired ones.
  void Sweep(size_t count);

  // Rows that went for want of room.
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
  std::function<Expiry::Clock::time_point()> clock = Expiry::Clock::now;
  EvictionListener* listener = nullptr;
  DistinctCounter distinct;
  TableStats counts;

  uint64_t stamp_origin = 0;  // A row's recency is its stamp minus this.
  uint64_t newest_stamp = 0;
  uint32_t suspect_below = 0;  // Rows of smaller recency may have expired.
  std::vector<size_t> absent;  // Positions in a request, kept for its memory.

  uint64_t row_limit = 0;  // Of capacity and of what the budget has granted.
  MemoryBudget* budget = nullptr;
  bool file_full = false;  // The arena's file got no more memory at the last pull.

 private:
  uint32_t StampOf(uint64_t stamp);
  void Rebase(uint64_t newest);
  // Rows that are free have their memory, whatever the file system has left.
  bool HasRoom() const {
    return index.size() < row_limit && (!file_full || index.size() < store.carved_rows());
  }
  bool MakeRoom(uint32_t now);
  bool AskForRows();
  bool Ask(uint64_t bytes, uint64_t& granted, uint64_t waiting);
  void Evict(uint32_t now, EvictionCause cause);
  void Remove(uint32_t row, EvictionCause cause, bool queued);
  void PrefetchVictims() const;

  uint32_t sweep_at = 0;
  uint64_t granted_for_rows = 0;  // Bytes of the last grants, and what waits of earlier ones.
  uint64_t granted_for_sketches = 0;
  uint64_t sketches_left = 0;  // Of the last grant.
  bool denied = false;         // Within this pull.
  mutable std::vector<float> scratch;
};

}  // namespace simurgh
