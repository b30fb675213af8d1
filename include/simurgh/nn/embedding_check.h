#pragma once

#include <span>
#include <string>
#include <vector>

#include "simurgh/data/vector_codec.h"
#include "simurgh/nn/batch_block.h"
#include "simurgh/nn/model.h"

namespace simurgh {

// Finds features whose embeddings are not finite. Without features, finds none.
//
// Threads: immutable.
class EmbeddingCheck {
 public:
  EmbeddingCheck() = default;
  // features: side by side in the embeddings. wire: of the network's blocks.
  EmbeddingCheck(std::vector<ModelInputs::Feature> features, EmbeddingWire wire);

  size_t features() const { return features_.size(); }

  // Adds 1 to the count of each feature that has a NaN or an infinity in a block's embeddings.
  // Requires a block that the network has computed. Shape: counts (features).
  void Count(const BatchBlock& block, size_t samples, std::span<double> counts) const;

  // The names of the features whose count is above 0, separated by commas.
  std::string Names(std::span<const double> counts) const;
  // Names() as part of an error, with the remedy. Empty if there are none.
  std::string Problem(std::span<const double> counts) const;

 private:
  std::vector<ModelInputs::Feature> features_;
  EmbeddingWire wire_;
  size_t width_ = 0;
};

}  // namespace simurgh
