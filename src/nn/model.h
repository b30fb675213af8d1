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
    size_t mask_width = 0;  // Columns of its mask, one for each of its rows; 0: no mask.
    size_t places = 0;      // Rows of a raw feature; 0: it is pooled.
  };

  // Columns of dense features, the last ones the features' masks, in order. 0: none.
  size_t dense_width = 0;
  size_t embedding_width = 0;  // Columns of the embeddings; 0: none.
  // Consecutive columns of the embeddings, for towers that read single features.
  std::vector<Feature> features;
  bool has_sample_weights = false;
};

// Checks that a network of this model can be built from these inputs. Cost: linear in the number of
// layers. Errors: INVALID_ARGUMENT, for example for more than 2^31 weights.
Status CheckModel(const ModelConfig& model, const ModelInputs& inputs);

}  // namespace simurgh
