#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace simurgh {

// Columns that a model can read.
struct ModelInputs {
  struct Feature {
    std::string name;
    size_t width = 0;
  };

  size_t dense_width = 0;      // 0: the data has no dense features.
  size_t embedding_width = 0;  // 0: the data has no embeddings.
  // Consecutive columns of the embeddings, for towers that read single features.
  std::vector<Feature> features;
};

}  // namespace simurgh
