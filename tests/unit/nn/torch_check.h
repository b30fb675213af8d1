#pragma once

#include <string>

#include "config/model_config.h"
#include "nn/model.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {

// Compares loss, predictions and all gradients of a CPU network with PyTorch's in f64. The weights
// are random. folder: see torch_reference.py. step: has the keys of the loss in_batch_softmax.
void CheckAgainstTorch(const ModelConfig& model, const ModelInputs& inputs, const TestBatch& batch,
                       const std::string& folder, const RankStep& step = {});

}  // namespace simurgh::testing
