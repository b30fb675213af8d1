#pragma once

#include <cstdint>
#include <vector>

#include "simurgh/config/embedding_form.h"
#include "simurgh/data/pooling.h"

namespace simurgh {

// Wire format of a trainer's embeddings and gradients.
struct EmbeddingWire {
  std::vector<uint32_t> dims;  // Dims of a sample's vectors, in order.
  VectorPrecision embeddings = VectorPrecision::kF32;
  VectorPrecision gradients = VectorPrecision::kF32;
  float gradient_factor = 1;  // Factor of gradients on the wire; above 0.
  uint64_t seed = 0;          // Seed of the gradients' RoundingKey.
  // If rows are sent instead of embeddings, those of all features, for RowCodec. Otherwise empty.
  std::vector<FeatureRows> rows = {};
};

}  // namespace simurgh
