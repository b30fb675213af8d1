#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/model_config.h"

namespace simurgh {

// Columns that a model can read.
struct ModelInputs {
  struct Feature {
    std::string name;
    size_t width = 0;
    size_t mask_width = 0;  // Its mask's columns, one for each of its rows; 0: it has none.
  };

  // 0: the data has no dense features. The last columns are the features' masks, in order.
  size_t dense_width = 0;
  size_t embedding_width = 0;  // 0: the data has no embeddings.
  // Consecutive columns of the embeddings, for towers that read single features.
  std::vector<Feature> features;
  bool has_sample_weights = false;
};

// Whether a network of this model can be built from these inputs. Cost: that of the layers' number.
// Errors: INVALID_ARGUMENT, for example for more than 2^31 weights.
Status CheckModel(const ModelConfig& model, const ModelInputs& inputs);

}  // namespace simurgh
