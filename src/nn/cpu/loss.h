#pragma once

#include <span>

// All spans of one call have one length, B.
namespace simurgh::cpu {

// The mean binary cross entropy of the logits, max(z, 0) - z y + log(1 + exp(-|z|)): no logit
// overflows.
//
// labels: each 0 or 1. probabilities: the sigmoid of the logits. gradient: of the mean, by logit,
// (probability - label) / B. Both overwritten.
double BinaryCrossEntropy(std::span<const float> logits, std::span<const float> labels,
                          std::span<float> probabilities, std::span<float> gradient);

// The sigmoid of the logits, with the same bits as above.
void Probabilities(std::span<const float> logits, std::span<float> probabilities);

}  // namespace simurgh::cpu
