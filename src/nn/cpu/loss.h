#pragma once

#include <cstdint>
#include <span>

#include "simurgh/config/model_config.h"

// T tasks; logits, labels, probabilities and gradient are (B, T), sample after sample.
namespace simurgh::cpu {

// The mean over the samples of the weighted sum over the tasks of their losses, see LossConfig.
// Everything follows from log(1 + exp(-|z|)): no logit overflows.
//
// labels: each 0 or 1. probabilities: the sigmoid of the logits. gradient: of the sum over the
// samples, divided by gradient_divisor, by logit. Both overwritten.
double Loss(std::span<const TaskConfig> tasks, std::span<const float> logits,
            std::span<const float> labels, std::span<float> probabilities,
            uint64_t gradient_divisor, std::span<float> gradient);

// The sigmoid of the logits, with the same bits as above.
void Probabilities(std::span<const float> logits, std::span<float> probabilities);

}  // namespace simurgh::cpu
