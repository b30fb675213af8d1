#include "train/progress_meter.h"

#include <algorithm>
#include <utility>

namespace simurgh {
namespace {

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

ProgressMeter::ProgressMeter(std::chrono::milliseconds interval, size_t auc_window, size_t tasks)
    : interval_(interval), aucs_(tasks, SlidingAuc(auc_window)) {}

void ProgressMeter::Add(const TrainObserver::Step& step, std::span<const float> labels,
                        std::span<const float> probabilities) {
  ++result.steps;
  result.samples += step.samples;
  result.skipped_steps += step.applied ? 0 : 1;
  ++steps_;
  samples_ += step.samples;
  staleness_ += step.staleness;
  ranks_staleness_ += step.ranks_staleness;
  if (!step.applied) return;
  loss_ += step.loss * static_cast<double>(step.samples);
  applied_samples_ += step.samples;
  if (aucs_.size() == 1) return aucs_.front().Add(labels, probabilities);
  for (size_t i = 0; i < labels.size(); ++i) {
    aucs_[i % aucs_.size()].Add(labels.subspan(i, 1), probabilities.subspan(i, 1));
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
  std::vector<double> aucs;
  for (const SlidingAuc& auc : aucs_) aucs.push_back(auc.Value());
  TrainObserver::Progress progress{
      .steps = result.steps,
      .samples = result.samples,
      .seconds = Seconds(now - start_),
      .skipped_steps = result.skipped_steps,
      .loss = loss_ / static_cast<double>(std::max<uint64_t>(applied_samples_, 1)),
      .samples_per_second = static_cast<double>(samples_) / Seconds(now - last_report_),
      .staleness = staleness_ / steps,
      .ranks_staleness = ranks_staleness_ / steps,
      .dense_staleness = std::nullopt,
      .auc = aucs.front(),
      .data = data,
      .task_aucs = {}};
  if (dense_pushes_ > 0) {
    progress.dense_staleness = dense_gaps_ / static_cast<double>(dense_pushes_);
  }
  if (aucs.size() > 1) progress.task_aucs = std::move(aucs);
  last_report_ = now;
  steps_ = samples_ = applied_samples_ = 0;
  dense_pushes_ = 0;
  loss_ = staleness_ = ranks_staleness_ = dense_gaps_ = 0;
  return progress;
}

TrainResult ProgressMeter::Finish() {
  result.seconds = Seconds(Clock::now() - start_);
  return result;
}

}  // namespace simurgh
