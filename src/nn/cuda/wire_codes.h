#pragma once

#include <cstdint>
#include <vector>

#include "nn/model_plan.h"
#include "simurgh/data/vector_code.h"

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

  VectorCode embeddings;
  VectorCode gradients;
  float gradient_factor;
  uint64_t seed;
  // For the device: where each vector begins and the last one ends, then each column's vector.
  std::vector<uint32_t> table;
};

}  // namespace simurgh::cuda
