#include "nn/metrics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "nn/formulas.h"

namespace simurgh {

// The upper bits have the order of the scores; both zeros have the same.
uint64_t RankedScore(float label, float score) {
  constexpr uint32_t kSign = uint32_t{1} << 31;
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);
  const uint64_t key = (bits & kSign) != 0 ? ~bits : bits | kSign;
  return key << 1 | (label > 0.5F ? 1U : 0U);
}

// Sorts many scores by three digits of 11 bits, since ranked scores have 33 bits.
void SortScores(std::vector<uint64_t>& scores) {
  constexpr size_t kFew = 4'096;
  constexpr uint32_t kDigitBits = 11;
  constexpr size_t kDigits = size_t{1} << kDigitBits;
  if (scores.size() < kFew) {
    std::ranges::sort(scores);
    return;
  }
  std::vector<uint64_t> sorted(scores.size());
  for (uint32_t shift = 0; shift < 3 * kDigitBits; shift += kDigitBits) {
    const auto digit = [shift](uint64_t score) { return (score >> shift) % kDigits; };
    std::array<size_t, kDigits> begins{};
    for (const uint64_t score : scores) ++begins[digit(score)];
    std::exclusive_scan(begins.begin(), begins.end(), begins.begin(), size_t{0});
    for (const uint64_t score : scores) sorted[begins[digit(score)]++] = score;
    scores.swap(sorted);
  }
}

template <typename Weight>
void AucSumOf<Weight>::Add(uint64_t ranked_score, Weight weight) {
  if (ranked_score >> 1 != score_) {
    CloseTies();
    score_ = ranked_score >> 1;
  }
  ((ranked_score & 1) != 0 ? tied_positives_ : tied_negatives_) += weight;
}

template <typename Weight>
void AucSumOf<Weight>::CloseTies() {
  doubled_wins_ += tied_positives_ * (2 * negatives_ + tied_negatives_);
  positives_ += std::exchange(tied_positives_, Weight{});
  negatives_ += std::exchange(tied_negatives_, Weight{});
}

template <typename Weight>
double AucSumOf<Weight>::value() const {
  AucSumOf all = *this;
  all.CloseTies();
  if (all.positives_ == 0 || all.negatives_ == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(all.doubled_wins_) /
         (2.0 * static_cast<double>(all.positives_) * static_cast<double>(all.negatives_));
}

template class AucSumOf<uint64_t>;
template class AucSumOf<double>;

double ExactAuc(std::span<const float> labels, std::span<const float> scores,
                std::span<const float> weights) {
  SIMURGH_CHECK_EQ(labels.size(), scores.size());
  if (!weights.empty()) {
    SIMURGH_CHECK_EQ(labels.size(), weights.size());
    std::vector<WeightedScore> weighted(scores.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      if (std::isnan(scores[i])) return std::numeric_limits<double>::quiet_NaN();
      weighted[i] = {RankedScore(labels[i], scores[i]), double{weights[i]}};
    }
    std::ranges::sort(weighted);
    AucSumOf<double> auc;
    for (const WeightedScore& score : weighted) auc.Add(score.ranked_score, score.weight);
    return auc.value();
  }
  std::vector<uint64_t> ranked(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) return std::numeric_limits<double>::quiet_NaN();
    ranked[i] = RankedScore(labels[i], scores[i]);
  }
  SortScores(ranked);
  AucSum auc;
  for (const uint64_t score : ranked) auc.Add(score);
  return auc.value();
}

void GroupAucSum::Add(const GroupedScore& score) {
  if (score.group != group_) {
    CloseGroup();
    group_ = score.group;
  }
  of_group_.Add(score.ranked_score, score.weight);
}

void GroupAucSum::CloseGroup() {
  const AucSumOf<double> group = std::exchange(of_group_, {});
  const double auc = group.value();
  if (std::isnan(auc)) return;  // A class is missing.
  sum_ += group.weight() * auc;
  weight_ += group.weight();
}

double GroupAucSum::value() const {
  GroupAucSum all = *this;
  all.CloseGroup();
  return all.sum_ / all.weight_;
}

void PredictionSums::Add(const LossConfig& task, float label, float prediction,
                         float sample_weight) {
  const double y = label;
  const double w = sample_weight;
  const double error = double{prediction} - y;
  ++samples;
  positives += label == 1.0F ? 1 : 0;
  weight += w;
  labels += w * y;
  squared_labels += w * (y * y);
  predicted += w * double{prediction};
  squared_errors += w * (error * error);
  const LossFormula formula = FormulaOf({.label = {}, .loss = task});
  double z = prediction;
  if (task.kind == LossConfig::Kind::kPoisson) {
    z = std::log(std::max(z, std::numeric_limits<double>::min()));
  } else if (!IsRegression(task.kind)) {
    constexpr double kSmallest = 1e-7;
    const double p = std::clamp(static_cast<double>(prediction), kSmallest, 1 - kSmallest);
    cross_entropy -= w * (y * std::log(p) + (1 - y) * std::log1p(-p));
    z = std::log(p) - std::log1p(-p);
  }
  loss += formula(z, y, PredictionOf(task.kind, z), w).loss;
}

double PredictionSums::rmse() const { return std::sqrt(squared_errors / weight); }

double PredictionSums::constant_rmse() const {
  const double mean = labels / weight;
  return std::sqrt(std::max(0.0, squared_labels / weight - mean * mean));
}

double PredictionSums::normalized_entropy() const {
  const double share = labels / weight;
  return log_loss() / -(share * std::log(share) + (1 - share) * std::log1p(-share));
}

double MeanLoss(std::span<const TaskConfig> tasks, std::span<const float> outputs,
                std::span<const float> labels, std::span<const float> weights,
                std::span<float> predictions) {
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const LossFormula formula = FormulaOf(tasks[i % tasks.size()]);
    const double prediction = PredictionOf(formula.kind, outputs[i]);
    const double weight = weights.empty() ? 1.0 : double{weights[i / tasks.size()]};
    sum += formula(outputs[i], labels[i], prediction, weight).loss;
    predictions[i] = static_cast<float>(prediction);
  }
  const size_t samples = outputs.size() / tasks.size();
  return samples == 0 ? 0 : sum / static_cast<double>(samples);
}

void UnscalePredictions(std::span<float> predictions, std::span<const LabelScale> scales) {
  for (size_t label = 0; label < scales.size(); ++label) {
    if (scales[label] == LabelScale()) continue;
    for (size_t i = label; i < predictions.size(); i += scales.size()) {
      predictions[i] = scales[label].Unscaled(predictions[i]);
    }
  }
}

SlidingAuc::SlidingAuc(size_t window) : window_(window) { SIMURGH_CHECK_LT(0U, window); }

void SlidingAuc::Add(std::span<const float> labels, std::span<const float> scores,
                     std::span<const float> weights) {
  SIMURGH_CHECK_EQ(labels.size(), scores.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels_.size() < window_) {
      labels_.push_back(labels[i]);
      scores_.push_back(scores[i]);
      if (!weights.empty()) weights_.push_back(weights[i]);
    } else {
      labels_[next_] = labels[i];
      scores_[next_] = scores[i];
      if (!weights.empty()) weights_[next_] = weights[i];
    }
    next_ = (next_ + 1) % window_;
  }
}

double SlidingAuc::Value() const { return ExactAuc(labels_, scores_, weights_); }

}  // namespace simurgh
