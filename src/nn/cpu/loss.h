#pragma once

#include <cstdint>
#include <span>

#include "config/model_config.h"

// T tasks; outputs, labels, predictions and gradient are (B, T), row-major. Outputs are those of
// the last layer: logits of binary labels.
namespace simurgh::cpu {

// The mean over samples of the tasks' weighted losses; see LossConfig. bce and focal are computed
// from log(1 + exp(-|z|)), so no logit overflows.
//
// labels: see LossConfig; then, if the samples have weights, the factors (B) of their losses.
// predictions: overwritten. gradient: overwritten with the derivative of the summed loss by output,
// divided by gradient_divisor.
double Loss(std::span<const TaskConfig> tasks, std::span<const float> outputs,
            std::span<const float> labels, std::span<float> predictions, uint64_t gradient_divisor,
            std::span<float> gradient);

}  // namespace simurgh::cpu
