#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/model_config.h"

namespace simurgh {

// What a model reads.
struct ModelInputs {
  struct Feature {
    std::string name;
    size_t width = 0;
  };

  size_t dense_width = 0;      // Columns; 0 when the data has no such input.
  size_t embedding_width = 0;  // The same.
  // Side by side from the first column of the embeddings, for the towers that read single ones.
  std::vector<Feature> features;
};

// Whether the towers fit together and can read these inputs.
//
// An input that no tower reads is allowed, a tower that feeds nothing is not. Errors:
// INVALID_ARGUMENT, naming tower and layer (counted from 1) and saying what to change.
Status ValidateModel(const ModelConfig& model, const ModelInputs& inputs);

}  // namespace simurgh
