#pragma once

#include <cstdint>
#include <vector>

#include "nn/cuda/pooling_kernels.h"
#include "nn/model_plan.h"
#include "simurgh/data/embedding_wire.h"
#include "simurgh/data/row_codec.h"
#include "simurgh/data/vector_codec.h"

namespace simurgh::cuda {

// Encodings of embeddings copied to the device and of gradients copied from it.
//
// Threads: immutable.
struct WireCodes {
  // Requires dims that sum to the plan's embedding width, or no dims and f32.
  WireCodes(const ModelPlan& plan, const EmbeddingWire& wire);

  // Whether gradients are encoded into separate memory.
  bool encodes() const { return gradients.precision() != VectorPrecision::kF32; }
  size_t vectors() const { return embeddings.dims().size(); }

  // Whether blocks may hold rows, which the device pools.
  bool pools() const { return !features.empty(); }

  VectorCodec embeddings;
  RowCodec rows;
  VectorCodec gradients;
  float gradient_factor;
  uint64_t seed;
  // Copied to the device: the vectors' first columns and the end, then each column's vector.
  std::vector<uint32_t> table;
  std::vector<PooledFeature> features;  // Copied to the device; empty without rows.
  std::vector<uint32_t> feature_of;     // By column of embeddings; copied likewise.
};

}  // namespace simurgh::cuda
