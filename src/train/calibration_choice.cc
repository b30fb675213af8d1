#include "train/calibration_choice.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "nn/calibration.h"

namespace simurgh {
namespace {

constexpr double kLeast = 1e-7;  // Floats next to 1 have no logit.

}  // namespace

CalibrationChoice::CalibrationChoice(std::span<const TaskConfig> tasks, double kept_negatives,
                                     std::vector<Calibration> old, std::vector<Calibration> fitted)
    : tasks_(tasks),
      kept_negatives_(kept_negatives),
      old_(std::move(old)),
      fitted_(std::move(fitted)),
      sums_(2 * tasks.size()) {
  old_.resize(tasks.size());
  fitted_.resize(tasks.size());
}

void CalibrationChoice::Add(const DenseBatch& batch, std::span<const float> probabilities) {
  ++steps_;
  logits_.resize(probabilities.size());
  std::ranges::transform(probabilities, logits_.begin(), [](float probability) {
    const double p = std::clamp<double>(probability, kLeast, 1 - kLeast);
    return static_cast<float>(std::log(p / (1 - p)));
  });
  AddLosses(batch, old_, std::span(sums_).first(tasks_.size()));
  AddLosses(batch, fitted_, std::span(sums_).last(tasks_.size()));
}

void CalibrationChoice::AddLosses(const DenseBatch& batch,
                                  std::span<const Calibration> calibrations,
                                  std::span<double> sums) {
  predictions_ = logits_;
  ToPredictions(tasks_, kept_negatives_, calibrations, predictions_);
  const std::span<const float> weights = batch.weights();
  const size_t tasks = tasks_.size();
  for (size_t row = 0; row < batch.batch_size; ++row) {
    const double weight = weights.empty() ? 1 : weights[row];
    for (size_t task = 0; task < tasks; ++task) {
      const float label = batch.labels[row * tasks + task];
      if (IsRegression(tasks_[task].loss.kind) || std::isnan(label)) continue;
      const double p = std::clamp<double>(predictions_[row * tasks + task], kLeast, 1 - kLeast);
      sums[task] -= steps_ * weight * (label > 0 ? std::log(p) : std::log1p(-p));
    }
  }
}

StatusOr<std::vector<Calibration>> CalibrationChoice::Choose(Collective& collective) const {
  std::vector<double> sums = sums_;
  SIMURGH_RETURN_IF_ERROR(collective.Sum(Channel::kStep, sums));
  std::vector<Calibration> chosen = old_;
  for (size_t task = 0; task < chosen.size(); ++task) {
    if (sums[chosen.size() + task] < sums[task]) chosen[task] = fitted_[task];
  }
  const bool is_any =
      std::ranges::any_of(chosen, [](const Calibration& one) { return one != Calibration(); });
  return is_any ? chosen : std::vector<Calibration>();
}

}  // namespace simurgh
