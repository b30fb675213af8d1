#include "nn/cuda/bucket_plan.h"

#include <utility>

namespace simurgh::cuda {
namespace {

// Bytes; parts are aligned for floats and doubles.
constexpr size_t kPartAlignment = 16;

}  // namespace

std::vector<ColumnRange> PlanBuckets(const ModelPlan& plan, size_t bucket_floats) {
  std::vector<ColumnRange> buckets;
  ColumnRange open{.first = plan.parameter_count};
  for (auto tower = plan.towers.rbegin(); tower != plan.towers.rend(); ++tower) {
    for (auto layer = tower->layers.rbegin(); layer != tower->layers.rend(); ++layer) {
      if (layer->parameter_count == 0) continue;
      open.first = layer->parameter_offset;
      open.count += layer->parameter_count;
      if (open.count < bucket_floats && open.first > 0) continue;
      buckets.push_back(std::exchange(open, ColumnRange{.first = open.first}));
    }
  }
  return buckets;
}

BucketParts PlanParts(size_t count, uint32_t ranks, AllReduceConfig::Precision precision) {
  const size_t floats = (count + ranks - 1) / ranks;
  BucketParts parts{.count = count, .part_floats = floats};
  const size_t bytes =
      precision == AllReduceConfig::Precision::kBf16
          ? floats * sizeof(uint16_t)
          : floats + (floats + kWireChunk - 1) / kWireChunk * (kWireChunkBytes - kWireChunk);
  parts.part_bytes = (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  return parts;
}

}  // namespace simurgh::cuda
