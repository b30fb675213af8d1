#pragma once

#include <cstdint>
#include <vector>

#include "nn/cuda/pooling_kernels.h"
#include "nn/model_plan.h"
#include "simurgh/data/embedding_wire.h"
#include "simurgh/data/row_codec.h"
#include "simurgh/data/vector_codec.h"

namespace simurgh::cuda {

// How embeddings come to the device, and their gradients leave it.
//
// Threads: immutable.
struct WireCodes {
  // Requires dims of as many columns as the plan has of embeddings; or none, and f32.
  WireCodes(const ModelPlan& plan, const EmbeddingWire& wire);

  // Whether gradients are made in another place than the one that they leave from.
  bool encodes() const { return gradients.precision() != VectorPrecision::kF32; }
  size_t vectors() const { return embeddings.dims().size(); }

  // Whether there are blocks of rows, which the device pools.
  bool pools() const { return !features.empty(); }

  VectorCodec embeddings;
  RowCodec rows;
  VectorCodec gradients;
  float gradient_factor;
  uint64_t seed;
  // For the device: where each vector begins and the last one ends, then each column's vector.
  std::vector<uint32_t> table;
  std::vector<PooledFeature> features;  // For the device; none: no rows come.
  std::vector<uint32_t> feature_of;     // By column of embeddings, likewise.
};

}  // namespace simurgh::cuda
