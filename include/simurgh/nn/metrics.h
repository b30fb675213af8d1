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

// The mean probability over the share of positives: 1 where a model predicts as many as there are.
// NaN when empty, infinite without positives.
double Calibration(std::span<const float> labels, std::span<const float> probabilities);

// What a model that was trained on all positives and the share `kept` of the negatives means by its
// probabilities where no negatives are left out: p / (p + (1 - p) / kept), in place. AUC stays.
// Requires 0 < kept <= 1.
// Source: He et al., "Practical lessons from predicting clicks on ads at Facebook", ADKDD 2014.
void CorrectForSampling(std::span<float> probabilities, double kept);

}  // namespace simurgh
