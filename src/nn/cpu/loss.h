#pragma once

#include <cstdint>
#include <span>

#include "simurgh/config/model_config.h"

// T tasks; logits, labels, probabilities and gradient are (B, T), row-major.
namespace simurgh::cpu {

// The mean over samples of the tasks' weighted losses; see LossConfig. Computed from
// log(1 + exp(-|z|)), so no logit overflows.
//
// labels: each 0 or 1. probabilities: overwritten with the sigmoid of the logits. gradient:
// overwritten with the derivative of the summed loss by logit, divided by gradient_divisor.
double Loss(std::span<const TaskConfig> tasks, std::span<const float> logits,
            std::span<const float> labels, std::span<float> probabilities,
            uint64_t gradient_divisor, std::span<float> gradient);

// The sigmoid of the logits, with the same bits as Loss.
void Probabilities(std::span<const float> logits, std::span<float> probabilities);

}  // namespace simurgh::cpu
