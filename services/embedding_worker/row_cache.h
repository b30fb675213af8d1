#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "simurgh/base/aligned_buffer.h"

namespace simurgh {

// Rows as servers gave them at the latest steps of one rank, for pulls that may have rows so old.
//
// Rows lie in a ring in the order of their first coming; where one needs room, those that came
// first go. An index of buckets of one cache line finds them; a bucket that is full forgets the row
// that came first. Both are made at once, and nothing else is ever allocated.
//
// Threads: one owner.
class RowCache {
 public:
  // capacity_bytes: of ring and index together; one that holds no row keeps none. A row that was
  // fetched for step s is found for steps up to s + max_age_steps. table_dims: by table.
  RowCache(size_t capacity_bytes, uint32_t max_age_steps, std::vector<uint32_t> table_dims);

  // Copies the row, if it is here and young enough at this step; its age in steps.
  std::optional<uint32_t> Find(uint32_t table, uint64_t id, uint64_t step,
                               std::span<float> row) const;

  // Keeps a row that was fetched for this step, unless one of a later step is here.
  void Insert(uint32_t table, uint64_t id, uint64_t step, std::span<const float> row);

  // Has the processor fetch what Find of this row looks at first.
  void Prefetch(uint32_t table, uint64_t id) const {
    if (!index_.empty()) __builtin_prefetch(&index_[FirstOfBucket(HashOf(table, id))]);
  }

  size_t rows() const { return rows_; }
  // Of ring and index, whatever they hold.
  size_t bytes() const { return ring_.size() + index_.size() * sizeof(uint64_t); }
  // Rows that went for want of room while they were young enough.
  uint64_t evicted_for_space() const { return evicted_for_space_; }

 private:
  struct Header;
  static constexpr size_t kWays = 8;  // Entries of a bucket: a cache line.

  static uint64_t HashOf(uint32_t table, uint64_t id);
  size_t FirstOfBucket(uint64_t hash) const {
    const auto buckets = static_cast<unsigned __int128>(index_.size() / kWays);
    return static_cast<size_t>(buckets * hash >> 64) * kWays;
  }
  size_t SizeOf(uint32_t table) const;
  // position: in bytes since the beginning, over all rounds of the ring.
  Header& At(uint64_t position) const;
  bool IsHere(uint64_t entry) const;
  // The entry of the row's record; null when it is not here.
  const uint64_t* EntryOf(uint32_t table, uint64_t id) const;
  // Where so many bytes in one piece can be had, after letting the rows go that lie there.
  uint64_t MakeRoom(size_t bytes);
  void LetFirstGo();

  const uint32_t max_age_steps_;
  const std::vector<uint32_t> table_dims_;
  AlignedBuffer ring_;
  std::vector<uint64_t> index_;  // Entries: see the .cc file.
  uint64_t first_ = 0;           // Position of the record that came first,
  uint64_t end_ = 0;             // and behind that which came last.
  uint64_t newest_step_ = 0;
  size_t rows_ = 0;
  uint64_t evicted_for_space_ = 0;
};

}  // namespace simurgh
