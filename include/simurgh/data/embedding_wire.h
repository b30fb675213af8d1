#pragma once

#include <cstdint>
#include <vector>

#include "simurgh/config/vector_precision.h"
#include "simurgh/data/pooling.h"

namespace simurgh {

// How a trainer's embeddings and their gradients travel.
struct EmbeddingWire {
  std::vector<uint32_t> dims;  // Of a sample's vectors, in order.
  VectorPrecision embeddings = VectorPrecision::kF32;
  VectorPrecision gradients = VectorPrecision::kF32;
  float gradient_factor = 1;  // What gradients are multiplied by; above 0.
  uint64_t seed = 0;          // Of the gradients' RoundingKey.
  // Of all features where a batch's rows travel in place of embeddings, in their precision: as
  // RowCodec has them. Else none.
  std::vector<FeatureRows> rows = {};
};

}  // namespace simurgh
