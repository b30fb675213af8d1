#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"

namespace simurgh {

// Copies of rows of another process, by table and id, each with the step that it was fetched for.
//
// A ring holds the rows in the order of insertion and evicts the oldest. An index with buckets of
// one cache line locates them; a full bucket drops its oldest entry. The constructor allocates
// both; nothing allocates later.
//
// Threads: one owner.
class RowCache {
 public:
  // capacity_bytes: of ring and index; may be too small for any row. A row fetched for step s is
  // valid up to step s + max_age_steps. row_bytes: by table, one or more.
  RowCache(size_t capacity_bytes, uint32_t max_age_steps, std::vector<size_t> row_bytes);

  // Copies the row if it is cached and valid at this step. Returns its age in steps.
  std::optional<uint32_t> Find(uint32_t table, uint64_t id, uint64_t step,
                               std::span<std::byte> row) const;

  // Caches a row fetched for this step, unless a later version is cached.
  void Insert(uint32_t table, uint64_t id, uint64_t step, std::span<const std::byte> row);

  // Forgets a row, or all.
  void Erase(uint32_t table, uint64_t id);
  void Clear();

  // Prefetches the row's bucket.
  void Prefetch(uint32_t table, uint64_t id) const {
    if (!index_.empty()) __builtin_prefetch(&index_[FirstOfBucket(HashOf(table, id))]);
  }

  // Number of rows. A forgotten row counts until its room is needed.
  size_t rows() const { return rows_; }
  // Bytes allocated for ring and index.
  size_t bytes() const { return ring_.size() + index_.size() * sizeof(uint64_t); }
  // Number of rows evicted while still valid.
  uint64_t evicted_for_space() const { return evicted_for_space_; }

 private:
  struct Header;
  static constexpr size_t kWays = 8;  // Entries of a bucket: a cache line.

  static uint64_t HashOf(uint32_t table, uint64_t id);
  size_t FirstOfBucket(uint64_t hash) const {
    const auto buckets = static_cast<unsigned __int128>(index_.size() / kWays);
    return static_cast<size_t>(buckets * hash >> 64) * kWays;
  }
  size_t RecordBytes(uint32_t table) const;
  // position: total bytes before the record, over all rounds of the ring.
  Header& At(uint64_t position) const;
  bool IsLive(uint64_t entry) const;
  // Null if the row is not cached.
  const uint64_t* EntryOf(uint32_t table, uint64_t id) const;
  // Evicts rows until `bytes` contiguous bytes are free. Returns their position.
  uint64_t MakeRoom(size_t bytes);
  void EvictOldest();

  const uint32_t max_age_steps_;
  const std::vector<size_t> row_bytes_;
  AlignedBuffer ring_;
  std::vector<uint64_t> index_;  // Entries: see the .cc file.
  uint64_t first_ = 0;           // Position of the oldest record.
  uint64_t end_ = 0;             // End of the newest record.
  uint64_t newest_step_ = 0;
  size_t rows_ = 0;
  uint64_t evicted_for_space_ = 0;
};

}  // namespace simurgh
