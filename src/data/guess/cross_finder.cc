#include "data/guess/cross_finder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

#include "data/guess/folds.h"
#include "data/processing/numbers.h"

namespace simurgh {

void CrossFinder::AddColumn(size_t column, std::vector<uint32_t> values) {
  columns_.push_back({.number = column, .values = std::move(values)});
}

double CrossFinder::Prediction(double score) const {
  return is_binary_ ? 1 / (1 + std::exp(-score)) : score;
}

double CrossFinder::Loss(double label, double score) const {
  if (!is_binary_) return (label - score) * (label - score);
  return std::log1p(std::exp(label > 0.5 ? -score : score));
}

double CrossFinder::MeanLoss() const {
  double sum = 0;
  for (size_t row = 0; row < labels_.size(); ++row) sum += Loss(labels_[row], scores_[row]);
  return sum / static_cast<double>(labels_.size());
}

void CrossFinder::StartWithConstant() {
  const double sum = std::accumulate(labels_.begin(), labels_.end(), 0.0);
  const auto rows = static_cast<double>(labels_.size());
  const double mean = is_binary_ ? (sum + 0.5) / (rows + 1) : sum / rows;
  scores_.assign(labels_.size(), is_binary_ ? std::log(mean / (1 - mean)) : mean);
}

// One of Newton's steps for each key, from the rows of other folds.
CrossFinder::Step CrossFinder::StepOf(const std::vector<uint32_t>& keys, size_t distinct) const {
  constexpr double kRows = 8;  // Further rows of each key that need no step.
  constexpr double kMaxStep = 4;
  struct Sums {
    std::array<double, kFolds> slopes = {};
    std::array<double, kFolds> curvatures = {};
    double slope = 0;
    double curvature = 0;
  };
  std::vector<Sums> sums(distinct);
  double curvatures = 0;
  for (size_t row = 0; row < keys.size(); ++row) {
    const double p = Prediction(scores_[row]);
    const double slope = labels_[row] - p;
    const double curvature = is_binary_ ? p * (1 - p) : 1;
    Sums& of_key = sums[keys[row]];
    const size_t fold = FoldOf(row);
    of_key.slopes[fold] += slope;
    of_key.curvatures[fold] += curvature;
    of_key.slope += slope;
    of_key.curvature += curvature;
    curvatures += curvature;
  }
  const double further = kRows * curvatures / static_cast<double>(keys.size()) + 1e-9;
  Step step;
  Moments gains;
  for (size_t row = 0; row < keys.size(); ++row) {
    double added = 0;
    if (keys[row] != kMissing) {
      const Sums& of_key = sums[keys[row]];
      const size_t fold = FoldOf(row);
      added = std::clamp((of_key.slope - of_key.slopes[fold]) /
                             (of_key.curvature - of_key.curvatures[fold] + further),
                         -kMaxStep, kMaxStep);
    }
    step.added.push_back(added);
    gains.Add(Loss(labels_[row], scores_[row]) - Loss(labels_[row], scores_[row] + added));
  }
  step.gain = gains.mean();
  step.error = gains.stddev() / std::sqrt(gains.count());
  return step;
}

CrossFinder::Step CrossFinder::CrossOf(const Candidate& pair, uint64_t& distinct) const {
  const std::vector<uint32_t>& first = columns_[pair.first].values;
  const std::vector<uint32_t>& second = columns_[pair.second].values;
  absl::flat_hash_map<uint64_t, uint32_t> known = {{0, kMissing}};
  std::vector<uint32_t> keys;
  keys.reserve(first.size());
  for (size_t row = 0; row < first.size(); ++row) {
    uint64_t key = uint64_t{first[row]} << 32 | second[row];
    if (first[row] == kMissing || second[row] == kMissing) key = 0;
    const auto next = static_cast<uint32_t>(known.size());
    keys.push_back(known.try_emplace(key, next).first->second);
  }
  distinct = known.size() - 1;
  return StepOf(keys, known.size());
}

void CrossFinder::Add(const Step& step) {
  for (size_t row = 0; row < scores_.size(); ++row) scores_[row] += step.added[row];
}

std::vector<Cross> CrossFinder::Find() {
  constexpr size_t kMinRows = 1'000;
  constexpr size_t kMaxColumns = 16;
  constexpr size_t kMaxCandidates = 24;
  constexpr double kShare = 0.01;
  constexpr double kErrors = 5;  // Many pairs are tried.
  if (labels_.size() < kMinRows) return {};
  StartWithConstant();
  const double constant = MeanLoss();
  for (int pass = 0; pass < 2; ++pass) {
    for (Column& column : columns_) {
      const Step step = StepOf(column.values, 1 + std::ranges::max(column.values));
      if (pass == 0) column.gain = step.gain;
      if (step.gain > 0) Add(step);
    }
  }
  std::ranges::sort(columns_, {},
                    [](const Column& one) { return std::tuple(-one.gain, one.number); });
  columns_.resize(std::min(columns_.size(), kMaxColumns));

  uint64_t distinct = 0;
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < columns_.size(); ++i) {
    for (size_t k = i + 1; k < columns_.size(); ++k) {
      candidates.push_back({.first = i, .second = k, .gain = 0});
      candidates.back().gain = CrossOf(candidates.back(), distinct).gain;
    }
  }
  const auto by_gain = [](const Candidate& one) {
    return std::tuple(-one.gain, one.first, one.second);
  };
  std::ranges::sort(candidates, {}, by_gain);
  candidates.resize(std::min(candidates.size(), kMaxCandidates));
  std::vector<Cross> found;
  while (!candidates.empty() && found.size() < kMaxCrosses) {
    const Candidate best = candidates.front();
    const Step step = CrossOf(best, distinct);
    if (step.gain <= kErrors * step.error || step.gain <= kShare * constant) break;
    Add(step);
    const auto [first, second] =
        std::minmax(columns_[best.first].number, columns_[best.second].number);
    found.push_back({.first = first,
                     .second = second,
                     .distinct = distinct,
                     .rows = labels_.size(),
                     .share = step.gain / constant});
    candidates.erase(candidates.begin());
    for (Candidate& other : candidates) other.gain = CrossOf(other, distinct).gain;
    std::ranges::sort(candidates, {}, by_gain);
  }
  return found;
}

}  // namespace simurgh
