#include "report/permutation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "nn/metrics.h"

namespace simurgh {

PermutationTest::PermutationTest(LossConfig::Kind kind, std::span<const float> labels,
                                 std::span<const float> predictions, std::span<const float> weights)
    : kind_(kind), labels_(labels), weights_(weights) {
  for (size_t row = 0; row < labels.size(); ++row) {
    if (std::isnan(labels[row]) || !(weights[row] > 0)) continue;
    rows_.push_back(static_cast<uint32_t>(row));
    weight_ += weights[row];
  }
  loss_ = LossOf(predictions);
  auc_ = AucOf(predictions);
}

PermutationTest::Statistic PermutationTest::LossOf(std::span<const float> predictions) const {
  Statistic found{.influences = std::vector<double>(labels_.size())};
  const bool is_regression = IsRegression(kind_);
  const LossConfig loss{.kind = is_regression ? LossConfig::Kind::kSquaredError
                                              : LossConfig::Kind::kBce};
  double sum = 0;
  for (const uint32_t row : rows_) {
    PredictionSums one;
    one.Add(loss, labels_[row], predictions[row]);
    found.influences[row] = is_regression ? one.squared_errors : one.cross_entropy;
    sum += weights_[row] * found.influences[row];
  }
  const double mean = sum / weight_;
  found.value = is_regression ? std::sqrt(mean) : mean;
  // The root's derivative.
  const double factor = is_regression ? (mean > 0 ? 0.5 / found.value : 0) : 1;
  const double scale = factor * static_cast<double>(labels_.size()) / weight_;
  for (const uint32_t row : rows_) {
    found.influences[row] = scale * weights_[row] * (found.influences[row] - mean);
  }
  return found;
}

PermutationTest::Statistic PermutationTest::AucOf(std::span<const float> predictions) const {
  Statistic found{.value = std::numeric_limits<double>::quiet_NaN(), .influences = {}};
  if (IsRegression(kind_)) return found;
  double positives = 0;
  for (const uint32_t row : rows_) positives += double{weights_[row]} * labels_[row];
  const double negatives = weight_ - positives;
  if (!(positives > 0) || !(negatives > 0)) return found;
  std::vector<uint32_t> order = rows_;
  std::ranges::sort(order, {}, [&](uint32_t row) { return predictions[row]; });
  found.influences.resize(labels_.size());
  double positives_below = 0;
  double negatives_below = 0;
  double wins = 0;
  for (size_t first = 0; first < order.size();) {
    size_t end = first;
    double tied_positives = 0;
    double tied_negatives = 0;
    for (; end < order.size() && predictions[order[end]] == predictions[order[first]]; ++end) {
      (labels_[order[end]] == 1.0F ? tied_positives : tied_negatives) += weights_[order[end]];
    }
    for (size_t i = first; i < end; ++i) {
      const uint32_t row = order[i];
      // Shares of the other class that the row is on the right side of.
      found.influences[row] = labels_[row] == 1.0F
                                  ? (negatives_below + tied_negatives / 2) / negatives
                                  : (positives - positives_below - tied_positives / 2) / positives;
    }
    wins += tied_positives * (negatives_below + tied_negatives / 2);
    positives_below += tied_positives;
    negatives_below += tied_negatives;
    first = end;
  }
  found.value = wins / positives / negatives;
  for (const uint32_t row : rows_) {
    const double of_class = labels_[row] == 1.0F ? positives : negatives;
    found.influences[row] = static_cast<double>(labels_.size()) * weights_[row] *
                            (found.influences[row] - found.value) / of_class;
  }
  return found;
}

PermutationEffect PermutationTest::EffectOf(const Statistic& original,
                                            std::span<const Statistic> permuted,
                                            std::span<const std::vector<uint32_t>> permutations,
                                            double sign) const {
  const auto rows = static_cast<double>(labels_.size());
  const auto repeats = static_cast<double>(permuted.size());
  PermutationEffect effect;
  if (std::isnan(original.value) || rows_.size() < 2) {
    effect.mean = effect.standard_error = std::numeric_limits<double>::quiet_NaN();
    return effect;
  }
  std::vector<double> influences(labels_.size());
  for (size_t r = 0; r < permuted.size(); ++r) {
    effect.mean += sign * (permuted[r].value - original.value) / repeats;
    for (size_t row = 0; row < labels_.size(); ++row) {
      const double own = permuted[r].influences[row] - original.influences[row];
      influences[row] += own / repeats;
      influences[permutations[r][row]] += own / repeats;
    }
  }
  double squares = 0;
  for (const double one : influences) squares += one * one;
  effect.standard_error = std::sqrt(squares / (rows * (rows - 1)));
  effect.interval =
      StudentInterval(effect.mean, effect.standard_error, static_cast<double>(rows_.size()) - 1);
  return effect;
}

PermutationEffects PermutationTest::Measure(std::span<const std::vector<uint32_t>> permutations,
                                            std::span<const std::vector<float>> predictions) const {
  std::vector<Statistic> losses;
  std::vector<Statistic> aucs;
  for (const std::vector<float>& one : predictions) {
    losses.push_back(LossOf(one));
    aucs.push_back(AucOf(one));
  }
  return {.loss = EffectOf(loss_, losses, permutations, 1),
          .auc = EffectOf(auc_, aucs, permutations, -1)};
}

}  // namespace simurgh
