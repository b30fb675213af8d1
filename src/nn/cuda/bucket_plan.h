#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/model_plan.h"
#include "simurgh/config/training_config.h"

// What goes over the ranks at once, and how it lies on its way: plain arithmetic.
namespace simurgh::cuda {

// Ranges of parameters whose gradients are summed at once: whole layers, from the last to the
// first, as many as make `bucket_floats` or what is left.
std::vector<ColumnRange> PlanBuckets(const ModelPlan& plan, size_t bucket_floats);

// Values that share a minimum and a step in 8 bits; see Collective::Sum.
inline constexpr size_t kWireChunk = 512;
inline constexpr size_t kWireChunkBytes = kWireChunk + 2 * sizeof(float);

// A bucket in `ranks` parts, of which each rank sums one. Rank r's are the values from
// r * part_floats on, as far as there are; encoded, they lie part_bytes apart.
struct BucketParts {
  size_t count = 0;
  size_t part_floats = 0;
  size_t part_bytes = 0;

  size_t First(uint32_t rank) const { return Least(count, rank * part_floats); }
  size_t Count(uint32_t rank) const { return Least(count - First(rank), part_floats); }

 private:
  static size_t Least(size_t a, size_t b) { return a < b ? a : b; }
};

// precision: one that is encoded, bf16 or int8.
BucketParts PlanParts(size_t count, uint32_t ranks, AllReduceConfig::Precision precision);

}  // namespace simurgh::cuda
