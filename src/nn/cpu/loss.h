#pragma once

#include <cstdint>
#include <span>

#include "simurgh/config/model_config.h"

// All spans of one call have one length, B.
namespace simurgh::cpu {

// The mean loss of the logits, see LossConfig. Everything follows from log(1 + exp(-|z|)): no logit
// overflows.
//
// labels: each 0 or 1. probabilities: the sigmoid of the logits. gradient: of the sum
// over gradient_divisor, by logit. Both overwritten.
double Loss(const LossConfig& config, std::span<const float> logits, std::span<const float> labels,
            std::span<float> probabilities, uint64_t gradient_divisor, std::span<float> gradient);

// The sigmoid of the logits, with the same bits as above.
void Probabilities(std::span<const float> logits, std::span<float> probabilities);

}  // namespace simurgh::cpu
