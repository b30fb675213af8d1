#include "services/nn_worker/best_checkpoints.h"

#include <algorithm>
#include <cmath>

namespace simurgh {

std::optional<double> BestCheckpoints::ScoreOf(double auc, double log_loss) const {
  const double score = metric_ == EvaluationMetric::kAuc ? auc : -log_loss;
  return std::isnan(score) ? std::nullopt : std::optional(score);
}

std::optional<double> BestCheckpoints::ScoreOf(const TrainState& state) const {
  if (!enabled() || !state.validation) return std::nullopt;
  return ScoreOf(state.validation->auc, state.validation->log_loss);
}

bool BestCheckpoints::Admits(const TrainState& state) {
  const std::optional<double> score = ScoreOf(state);
  if (!score) return false;
  MutexLock lock(mutex_);
  return best_.size() < count_ || *score > best_.back().score;
}

std::optional<uint64_t> BestCheckpoints::BestWith(const TrainState& state) {
  const std::optional<double> score = ScoreOf(state);
  MutexLock lock(mutex_);
  if (score && (best_.empty() || *score > best_.front().score)) return state.steps;
  return best_.empty() ? std::nullopt : std::optional(best_.front().step);
}

void BestCheckpoints::Add(const Manifest& manifest) {
  MutexLock lock(mutex_);
  // The new one may replace a checkpoint of the same step.
  std::erase_if(best_, [&](const Scored& one) { return one.step == manifest.step; });
  const auto auc = manifest.metrics.find("validation_auc");
  const auto log_loss = manifest.metrics.find("validation_logloss");
  if (auc == manifest.metrics.end() || log_loss == manifest.metrics.end()) return;
  const std::optional<double> score = ScoreOf(auc->second, log_loss->second);
  if (!score) return;
  const auto worse = std::ranges::find_if(best_, [&](const Scored& one) {
    return one.score < *score || (one.score == *score && one.step > manifest.step);
  });
  best_.insert(worse, {*score, manifest.step});
  if (best_.size() > count_) best_.pop_back();
}

std::vector<uint64_t> BestCheckpoints::Steps() {
  MutexLock lock(mutex_);
  std::vector<uint64_t> steps;
  for (const Scored& one : best_) steps.push_back(one.step);
  return steps;
}

}  // namespace simurgh
