#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace simurgh {

// The area under the ROC curve: the probability that a positive ranks above a negative, ties
// counting half. NaN when a class is missing or a score is NaN.
//
// labels: each 0 or 1. scores: same length; logits and probabilities rank alike.
// Cost: one sort.
// Source: Mann-Whitney U with mid-ranks (Hanley and McNeil, Radiology 143, 1982).
double ExactAuc(std::span<const float> labels, std::span<const float> scores);

// A score and its label as a number that orders by score; the last bit is the label.
uint64_t RankedScore(float label, float score);

// Ascending. Cost: linear. Requires numbers of RankedScore.
void SortScores(std::vector<uint64_t>& scores);

// ExactAuc of scores that are added in ascending order.
class AucSum {
 public:
  void Add(uint64_t ranked_score);
  double value() const;  // NaN when a class is missing.
  uint64_t samples() const { return positives_ + negatives_ + tied_positives_ + tied_negatives_; }

 private:
  void CloseTies();

  uint64_t score_ = UINT64_MAX;  // Score of the open ties.
  uint64_t tied_positives_ = 0;
  uint64_t tied_negatives_ = 0;
  uint64_t positives_ = 0;
  uint64_t negatives_ = 0;
  // Twice the number of (positive, negative) pairs in the right order, a tie counting one: an
  // integer, hence exact.
  uint64_t doubled_wins_ = 0;
};

struct GroupedScore {
  uint64_t group = 0;
  uint64_t ranked_score = 0;

  auto operator<=>(const GroupedScore&) const = default;
};

// The mean, weighted by samples, of the AUC within each group that has both classes. NaN without
// such a group. Requires scores in ascending order.
// Source: Zhou et al., "Deep Interest Network", KDD 2018, section 6.3.
class GroupAucSum {
 public:
  void Add(const GroupedScore& score);
  double value() const;

 private:
  void CloseGroup();

  uint64_t group_ = 0;
  AucSum of_group_;
  double sum_ = 0;
  double samples_ = 0;
};

// Sums over predictions, from which their metrics follow. Sums of several sets add up.
struct PredictionSums {
  double samples = 0;
  double positives = 0;
  double predicted = 0;  // Sum of probabilities.
  double loss = 0;       // Binary cross entropy; probabilities are clamped to [1e-7, 1 - 1e-7].

  void Add(float label, float probability);
  // The mean. NaN without samples.
  double log_loss() const { return loss / samples; }
  // The mean probability over the share of positives: 1 for a calibrated model. NaN without
  // samples, infinite without positives.
  double calibration() const { return predicted / positives; }
  // Log loss over the entropy of the share of positives: 1 for a model that always predicts that
  // share. NaN when a class is missing. Source: He et al., see CorrectForSampling.
  double normalized_entropy() const;
};

// Corrects, in place, the probabilities of a model trained on all positives and the share `kept` of
// the negatives: p / (p + (1 - p) / kept). The AUC does not change. Requires 0 < kept <= 1.
// Source: He et al., "Practical lessons from predicting clicks on ads at Facebook", ADKDD 2014.
void CorrectForSampling(std::span<float> probabilities, double kept);

// The exact AUC of the latest predictions.
//
// Threads: one owner.
class SlidingAuc {
 public:
  // window: samples, at least 1; 8 bytes each.
  explicit SlidingAuc(size_t window);

  // labels: each 0 or 1. scores: same length, finite. Cost: allocates until the window is full.
  void Add(std::span<const float> labels, std::span<const float> scores);

  // ExactAuc of the last `window` samples, or of all if there were fewer. Cost: one sort.
  double Value() const;

 private:
  const size_t window_;
  size_t next_ = 0;  // Position of the next sample.
  std::vector<float> labels_;
  std::vector<float> scores_;
};

}  // namespace simurgh
