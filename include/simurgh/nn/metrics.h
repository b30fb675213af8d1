#pragma once

#include <cstdint>
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

// Log loss over the entropy of the share of positives: 1 for a model that knows no more than that
// share. NaN when a class is missing.
// Source: He et al., as of CorrectForSampling.
double NormalizedEntropy(std::span<const float> labels, std::span<const float> probabilities);

// The mean, by number of samples, of the AUC within each group of samples that share a value of
// `groups` and have both classes. NaN when there is no such group, or a score is NaN.
// Cost: one sort. Source: Zhou et al., "Deep Interest Network", KDD 2018, section 6.3.
double GroupAuc(std::span<const float> labels, std::span<const float> scores,
                std::span<const uint64_t> groups);

// What a model that was trained on all positives and the share `kept` of the negatives means by its
// probabilities where no negatives are left out: p / (p + (1 - p) / kept), in place. AUC stays.
// Requires 0 < kept <= 1.
// Source: He et al., "Practical lessons from predicting clicks on ads at Facebook", ADKDD 2014.
void CorrectForSampling(std::span<float> probabilities, double kept);

}  // namespace simurgh
