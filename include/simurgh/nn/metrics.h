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

// The mean probability over the share of positives: 1 for a calibrated model. NaN when empty,
// infinite without positives.
double Calibration(std::span<const float> labels, std::span<const float> probabilities);

// Log loss over the entropy of the share of positives: 1 for a model that always predicts that
// share. NaN when a class is missing.
// Source: He et al., see CorrectForSampling.
double NormalizedEntropy(std::span<const float> labels, std::span<const float> probabilities);

// The mean, weighted by samples, of the AUC within each group that has both classes. Samples with
// equal values in `groups` form a group. NaN without such a group, or when a score is NaN.
// Cost: one sort. Source: Zhou et al., "Deep Interest Network", KDD 2018, section 6.3.
double GroupAuc(std::span<const float> labels, std::span<const float> scores,
                std::span<const uint64_t> groups);

// Corrects, in place, the probabilities of a model trained on all positives and the share `kept` of
// the negatives: p / (p + (1 - p) / kept). The AUC does not change. Requires 0 < kept <= 1.
// Source: He et al., "Practical lessons from predicting clicks on ads at Facebook", ADKDD 2014.
void CorrectForSampling(std::span<float> probabilities, double kept);

}  // namespace simurgh
