#pragma once

#include <cstdint>
#include <span>

#include "nn/model_plan.h"

namespace simurgh {

// Sets the initial parameters. linear: weight and bias uniform in +-1/sqrt(inputs), PyTorch's
// default. cross: weights likewise, bias 0. batch_norm: scale 1, shift 0.
//
// A layer's values depend only on the seed, the tower's name, the layer's index and its widths.
void InitializeParameters(const ModelPlan& plan, uint64_t seed, std::span<float> parameters);

// Running means 0, running variances 1.
void InitializeStatistics(const ModelPlan& plan, std::span<float> statistics);

}  // namespace simurgh
