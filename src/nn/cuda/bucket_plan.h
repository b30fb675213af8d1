#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/model_plan.h"
#include "simurgh/config/training_config.h"

// Buckets of gradients that are summed over the ranks at once, and their encoded layout.
namespace simurgh::cuda {

// Buckets as ranges of parameters: whole layers, from the last to the first, each of at least
// `bucket_floats` except the last bucket.
std::vector<ColumnRange> PlanBuckets(const ModelPlan& plan, size_t bucket_floats);

// Values that share a minimum and a step in int8; see Collective::Sum.
inline constexpr size_t kWireChunk = 512;
inline constexpr size_t kWireChunkBytes = kWireChunk + 2 * sizeof(float);

// A bucket in one part per rank, which that rank sums. Rank r's part starts at value
// r * part_floats; encoded parts are part_bytes apart.
struct BucketParts {
  size_t count = 0;
  size_t part_floats = 0;
  size_t part_bytes = 0;

  size_t First(uint32_t rank) const { return std::min(count, rank * part_floats); }
  size_t Count(uint32_t rank) const { return std::min(count - First(rank), part_floats); }
};

// precision: bf16 or int8.
BucketParts PlanParts(size_t count, uint32_t ranks, AllReduceConfig::Precision precision);

}  // namespace simurgh::cuda
