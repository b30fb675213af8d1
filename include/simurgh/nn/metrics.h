#pragma once

#include <span>

namespace simurgh {

// The area under the ROC curve: the probability that a positive ranks above a negative, ties
// counting half. NaN when a class is missing or a score is NaN.
//
// labels: each 0 or 1. scores: same length; logits and probabilities rank alike.
// Cost: one sort.
// Source: Mann-Whitney U with mid-ranks (Hanley and McNeil, Radiology 143, 1982).
double ExactAuc(std::span<const float> labels, std::span<const float> scores);

// Mean binary cross entropy of probabilities, clamped to [1e-7, 1 - 1e-7]. NaN when empty.
double LogLoss(std::span<const float> labels, std::span<const float> probabilities);

}  // namespace simurgh
