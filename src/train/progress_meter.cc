#include "train/progress_meter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace simurgh {
namespace {

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

bool EarlyStopping::IsOver(const EvaluationResult& result) {
  if (config_.patience == 0) return false;
  const EvaluationMetric metric = config_.metric.value_or(EvaluationMetric::kAuc);
  const double value = ScoreOf(metric, ValueOf(result, metric));
  const bool better =
      state_.best ? value > *state_.best + double{config_.min_improvement} : !std::isnan(value);
  if (better) {
    state_.best = value;
    state_.no_better = 0;
    return false;
  }
  return ++state_.no_better >= config_.patience;
}

ProgressMeter::ProgressMeter(std::chrono::milliseconds interval, size_t auc_window,
                             std::span<const TaskConfig> tasks, std::vector<LabelScale> scales)
    : interval_(interval),
      window_samples_(auc_window),
      scales_(std::move(scales)),
      has_metrics_(tasks.front().loss.kind != LossConfig::Kind::kInBatchSoftmax) {
  for (const TaskConfig& task : tasks) {
    tasks_.push_back({.loss = task.loss, .auc = std::nullopt, .sums = {}});
    if (!IsRegression(task.loss.kind)) tasks_.back().auc.emplace(auc_window);
  }
}

void ProgressMeter::AddToWindow(const TrainObserver::Step& step, const DenseBatch& batch,
                                std::span<const float> probabilities) {
  if (step.samples == 0) return;
  Sums own{.samples = step.samples, .loss = step.loss * static_cast<double>(step.samples)};
  const std::span<const float> weights = batch.weights();
  for (size_t sample = 0; has_metrics_ && sample < step.samples; ++sample) {
    const size_t first = sample * tasks_.size();
    if (std::isnan(batch.labels[first])) continue;  // Unknown.
    const double weight = weights.empty() ? 1.0 : weights[sample];
    own.predicted += weight * Unscaled(0, probabilities[first]);
    own.labels += weight * Unscaled(0, batch.labels[first]);
  }
  const auto add = [this](const Sums& sums, double sign) {
    window_sums_.loss += sign * sums.loss;
    window_sums_.predicted += sign * sums.predicted;
    window_sums_.labels += sign * sums.labels;
  };
  window_.push_back(own);
  window_sums_.samples += own.samples;
  add(own, 1);
  while (window_sums_.samples - window_.front().samples >= window_samples_) {
    window_sums_.samples -= window_.front().samples;
    add(window_.front(), -1);
    window_.pop_front();
  }
}

TrainObserver::Window ProgressMeter::Window() const {
  const auto samples = static_cast<double>(window_sums_.samples);
  const std::optional<SlidingAuc>& auc = tasks_.front().auc;
  return {.samples = window_sums_.samples,
          .loss = window_sums_.loss / samples,
          .auc = auc ? auc->Value() : std::numeric_limits<double>::quiet_NaN(),
          .calibration = window_sums_.predicted / window_sums_.labels};
}

void ProgressMeter::Add(const TrainObserver::Step& step, const DenseBatch& batch,
                        std::span<const float> probabilities) {
  ++result.steps;
  result.samples += step.samples;
  result.skipped_steps += step.applied ? 0 : 1;
  ++steps_;
  samples_ += step.samples;
  staleness_ += step.staleness;
  ranks_staleness_ += step.ranks_staleness;
  waited_ += step.waited;
  if (!step.applied) return;
  loss_ += step.loss * static_cast<double>(step.samples);
  applied_samples_ += step.samples;
  AddToWindow(step, batch, probabilities);
  if (!has_metrics_) return;
  const std::span<const float> weights = batch.weights();
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (std::isnan(batch.labels[i])) continue;
    TaskMeter& task = tasks_[i % tasks_.size()];
    const size_t sample = i / tasks_.size();
    const auto weight = weights.empty() ? weights : weights.subspan(sample, 1);
    if (task.auc) {
      task.auc->Add({&batch.labels[i], 1}, probabilities.subspan(i, 1), weight);
    } else {
      const size_t index = i % tasks_.size();
      task.sums.Add(task.loss, Unscaled(index, batch.labels[i]), Unscaled(index, probabilities[i]),
                    weight.empty() ? 1.0F : weight.front());
    }
  }
}

void ProgressMeter::AddDensePush(uint64_t gap) {
  ++dense_pushes_;
  dense_gaps_ += static_cast<double>(gap);
}

void ProgressMeter::LeaveOut(Clock::duration duration) {
  start_ += duration;
  last_report_ += duration;
}

bool ProgressMeter::due() const { return Clock::now() - last_report_ >= interval_ && has_steps(); }

TrainObserver::Progress ProgressMeter::Report() {
  const auto now = Clock::now();
  const auto steps = static_cast<double>(std::max<uint64_t>(steps_, 1));
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::vector<TrainObserver::Progress::Metrics> metrics;
  for (TaskMeter& task : tasks_) {
    const PredictionSums sums = std::exchange(task.sums, {});
    metrics.push_back(task.auc ? TrainObserver::Progress::Metrics{task.auc->Value(), kNaN}
                               : TrainObserver::Progress::Metrics{kNaN, sums.rmse()});
  }
  TrainObserver::Progress progress{
      .steps = result.steps,
      .samples = result.samples,
      .seconds = Seconds(now - start_),
      .skipped_steps = result.skipped_steps,
      .loss = loss_ / static_cast<double>(std::max<uint64_t>(applied_samples_, 1)),
      .samples_per_second = static_cast<double>(samples_) / Seconds(now - last_report_),
      .staleness = staleness_ / steps,
      .ranks_staleness = ranks_staleness_ / steps,
      .waited = std::min(Seconds(waited_) / Seconds(now - last_report_), 1.0),
      .dense_staleness = std::nullopt,
      .metrics = metrics.front(),
      .window = Window(),
      .data = data,
      .tasks = {}};
  if (dense_pushes_ > 0) {
    progress.dense_staleness = dense_gaps_ / static_cast<double>(dense_pushes_);
  }
  if (metrics.size() > 1) progress.tasks = std::move(metrics);
  last_report_ = now;
  steps_ = samples_ = applied_samples_ = 0;
  dense_pushes_ = 0;
  waited_ = {};
  loss_ = staleness_ = ranks_staleness_ = dense_gaps_ = 0;
  return progress;
}

TrainResult ProgressMeter::Finish() {
  result.seconds = Seconds(Clock::now() - start_);
  result.window = Window();
  return result;
}

}  // namespace simurgh
