#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "embedding/batch_plan.h"
#include "embedding/bucket_map.h"

namespace simurgh::bench {

inline constexpr size_t kBatchIds = 4'096;

// One request for rows of the only table, as it is sent.
struct PsBatch {
  std::vector<uint64_t> ids;  // Partition after partition.
  RowGroup group;

  // (first id, ids) of a partition.
  std::span<const uint64_t> Of(size_t partition) const {
    size_t first = 0;
    for (size_t p = 0; p < partition; ++p) first += group.counts[p];
    return std::span(ids).subspan(first, group.counts[partition]);
  }
};

inline PsBatch BatchOf(const std::vector<uint64_t>& ids, uint32_t dim, const BucketMap& map) {
  PsBatch batch;
  batch.group.dim = dim;
  for (uint32_t p = 0; p < map.partitions(); ++p) {
    const size_t before = batch.ids.size();
    for (const uint64_t id : ids) {
      if (map.SlotOf(id) == p) batch.ids.push_back(id);
    }
    batch.group.counts.push_back(static_cast<uint32_t>(batch.ids.size() - before));
  }
  return batch;
}

// Ids have nothing to do with the numbers of rows.
inline uint64_t IdOfRow(uint64_t number) { return Mix64(number + 1); }

// All rows once, in batches.
inline std::vector<PsBatch> AllRows(uint64_t rows, uint32_t dim, const BucketMap& map) {
  std::vector<PsBatch> batches;
  for (uint64_t first = 0; first < rows; first += kBatchIds) {
    std::vector<uint64_t> ids;
    for (uint64_t i = first; i < std::min(rows, first + kBatchIds); ++i) ids.push_back(IdOfRow(i));
    batches.push_back(BatchOf(ids, dim, map));
  }
  return batches;
}

// Batches of distinct rows, drawn uniformly.
inline std::vector<PsBatch> DrawPsBatches(uint64_t rows, uint32_t dim, const BucketMap& map,
                                          size_t count) {
  Random random(1);
  std::vector<PsBatch> batches;
  std::vector<bool> drawn(rows);
  for (size_t i = 0; i < count; ++i) {
    std::vector<uint64_t> numbers;
    while (numbers.size() < kBatchIds) {
      const uint64_t number = random.Below(rows);
      if (drawn[number]) continue;
      drawn[number] = true;
      numbers.push_back(number);
    }
    std::vector<uint64_t> ids;
    for (const uint64_t number : numbers) {
      drawn[number] = false;
      ids.push_back(IdOfRow(number));
    }
    batches.push_back(BatchOf(ids, dim, map));
  }
  return batches;
}

}  // namespace simurgh::bench
