#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "config/statistics.h"
#include "config/training_config.h"
#include "nn/metrics.h"
#include "train/checkpoint_port.h"
#include "train/evaluator.h"
#include "train/trainer.h"

namespace simurgh {

// Decides when evaluations have stopped improving.
//
// Threads: one owner.
class EarlyStopping {
 public:
  explicit EarlyStopping(const EarlyStoppingConfig& config, const EarlyStoppingState& state = {})
      : config_(config), state_(state) {}

  const EarlyStoppingState& state() const { return state_; }

  // Returns true for the `patience`-th evaluation in a row that does not exceed the best one by
  // more than min_improvement. NaN is never better.
  bool IsOver(const EvaluationResult& result);

 private:
  const EarlyStoppingConfig config_;
  EarlyStoppingState state_;
};

// Statistics of the steps since the last report and since the start.
//
// Threads: one owner.
class ProgressMeter {
 public:
  // interval: between reports. auc_window: number of latest predictions of each task's AUC.
  ProgressMeter(std::chrono::milliseconds interval, size_t auc_window,
                std::span<const TaskConfig> tasks, std::vector<LabelScale> scales = {});

  // probabilities: (batch, tasks), row by row.
  void Add(const TrainObserver::Step& step, const DenseBatch& batch,
           std::span<const float> probabilities);
  void AddDensePush(uint64_t gap);
  // Excludes time spent on evaluation.
  void LeaveOut(std::chrono::steady_clock::duration duration);

  // Returns whether there were steps since the last report.
  bool has_steps() const { return steps_ > 0; }
  bool due() const;
  // Resets the statistics since the last report.
  TrainObserver::Progress Report();
  TrainResult Finish();

  TrainResult result;
  ShareProgress data;  // Progress of the last step's batch.

 private:
  using Clock = std::chrono::steady_clock;

  // Sums over the samples of one or several steps, for the first label.
  struct Sums {
    uint64_t samples = 0;
    double loss = 0;
    double predicted = 0;
    double labels = 0;
  };
  void AddToWindow(const TrainObserver::Step& step, const DenseBatch& batch,
                   std::span<const float> probabilities);
  TrainObserver::Window Window() const;

  const std::chrono::milliseconds interval_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_report_ = start_;
  uint64_t steps_ = 0;
  uint64_t samples_ = 0;
  uint64_t applied_samples_ = 0;
  double loss_ = 0;
  double staleness_ = 0;
  double ranks_staleness_ = 0;
  std::chrono::nanoseconds waited_{};
  uint64_t dense_pushes_ = 0;
  double dense_gaps_ = 0;
  // The statistics of one task. A task without an AUC has a label of numbers.
  struct TaskMeter {
    LossConfig loss;
    std::optional<SlidingAuc> auc;
    PredictionSums sums;
  };
  std::vector<TaskMeter> tasks_;
  const size_t window_samples_;
  std::deque<Sums> window_;  // Sums of the latest steps.
  Sums window_sums_;

  // Returns the number in the unit of the label.
  float Unscaled(size_t task, float number) const {
    return scales_.empty() ? number : scales_[task].Unscaled(number);
  }

  const std::vector<LabelScale> scales_;  // One per label, or empty.
  const bool has_metrics_;                // False: single rows of the loss have none.
};

}  // namespace simurgh
