#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "config/model_config.h"
#include "config/statistics.h"

namespace simurgh {

// The area under the ROC curve: the probability that a positive ranks above a negative, ties
// counting half. NaN when a class is missing or a score is NaN.
//
// labels: each 0 or 1. scores: same length; logits and probabilities rank alike. weights: the same
// length, at least 0, or empty: each is 1. A pair counts by the product of its weights.
// Cost: one sort.
// Source: Mann-Whitney U with mid-ranks (Hanley and McNeil, Radiology 143, 1982).
double ExactAuc(std::span<const float> labels, std::span<const float> scores,
                std::span<const float> weights = {});

// Returns a score and its label as a number that orders by score; the last bit is the label.
uint64_t RankedScore(float label, float score);

// Sorts in ascending order. Cost: linear. Requires numbers of RankedScore.
void SortScores(std::vector<uint64_t>& scores);

// A score of RankedScore with the weight of its sample.
struct WeightedScore {
  uint64_t ranked_score = 0;
  double weight = 1;

  auto operator<=>(const WeightedScore&) const = default;
};

// ExactAuc of scores that are added in ascending order. Weight: double, or uint64_t for integers,
// of which the result is exact.
template <typename Weight>
class AucSumOf {
 public:
  void Add(uint64_t ranked_score, Weight weight = 1);
  double value() const;  // NaN when a class is missing.
  Weight weight() const { return positives_ + negatives_ + tied_positives_ + tied_negatives_; }

 private:
  void CloseTies();

  uint64_t score_ = UINT64_MAX;  // Score of the open ties.
  // Sums of weights.
  Weight tied_positives_ = 0;
  Weight tied_negatives_ = 0;
  Weight positives_ = 0;
  Weight negatives_ = 0;
  // Twice the weight of the (positive, negative) pairs in the right order, a tie counting half.
  Weight doubled_wins_ = 0;
};
using AucSum = AucSumOf<uint64_t>;

struct GroupedScore {
  uint64_t group = 0;
  uint64_t ranked_score = 0;
  double weight = 1;

  auto operator<=>(const GroupedScore&) const = default;
};

// The mean of the AUC within each group that has both classes, weighted by the groups' samples, or
// the sum of their weights. NaN without such a group. Requires scores in ascending order.
// Source: Zhou et al., "Deep Interest Network", KDD 2018, section 6.3.
class GroupAucSum {
 public:
  void Add(const GroupedScore& score);
  double value() const;

 private:
  void CloseGroup();

  uint64_t group_ = 0;
  AucSumOf<double> of_group_;
  double sum_ = 0;
  double weight_ = 0;
};

// Sums over predictions, from which their metrics follow. Sums of several sets add up.
struct PredictionSums {
  double samples = 0;
  double positives = 0;  // Samples with label 1.
  // Sums over the samples, each times its weight.
  double weight = 0;
  double labels = 0;
  double predicted = 0;
  double squared_errors = 0;
  double cross_entropy = 0;  // bce, focal; probabilities are clamped to [1e-7, 1 - 1e-7].
  double loss = 0;           // Sum of the task's loss.
  double squared_labels = 0;

  void Add(const LossConfig& task, float label, float prediction, float sample_weight = 1.0F);
  // Means over the samples. NaN without samples.
  double log_loss() const { return cross_entropy / weight; }
  double mean_loss() const { return loss / weight; }
  double rmse() const;
  // Returns rmse() of a model that always predicts the mean label: the deviation of the labels.
  double constant_rmse() const;
  // Returns the mean prediction over the mean label: 1 for a calibrated model. NaN without samples,
  // infinite without positives.
  double calibration() const { return predicted / labels; }
  // Returns log loss over the entropy of the share of positives: 1 for a model that always predicts
  // that share. NaN when a class is missing. Source: He et al., see ToPredictions().
  double normalized_entropy() const;
};

// Returns the mean over samples of the tasks' weighted losses, and sets the predictions of outputs:
// see LossConfig. Shape: outputs, labels and predictions (B, tasks). weights: (B) factors of the
// samples' losses; empty: each is 1. 0 without samples.
double MeanLoss(std::span<const TaskConfig> tasks, std::span<const float> outputs,
                std::span<const float> labels, std::span<const float> weights,
                std::span<float> predictions);

// Brings predictions, (B, labels) row by row, to the unit of their labels. scales: one per label,
// or none.
void UnscalePredictions(std::span<float> predictions, std::span<const LabelScale> scales);

// The exact AUC of the latest predictions.
//
// Threads: one owner.
class SlidingAuc {
 public:
  // window: samples, at least 1; 8 bytes each, 12 with weights.
  explicit SlidingAuc(size_t window);

  // See ExactAuc; scores are finite. Weights are given always or never. Cost: allocates until the
  // window is full.
  void Add(std::span<const float> labels, std::span<const float> scores,
           std::span<const float> weights = {});

  // ExactAuc of the last `window` samples, or of all if there were fewer. Cost: one sort.
  double Value() const;

 private:
  const size_t window_;
  size_t next_ = 0;  // Position of the next sample.
  std::vector<float> labels_;
  std::vector<float> scores_;
  std::vector<float> weights_;
};

}  // namespace simurgh
