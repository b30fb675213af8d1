#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/cluster_config.h"
#include "config/training_config.h"
#include "services/nn_worker/history.h"
#include "services/nn_worker/quality_warnings.h"
#include "services/runtime/log_limiter.h"
#include "telemetry/metrics.h"
#include "train/trainer.h"

namespace simurgh {

// Returns a number with four decimals, or "undefined" for NaN.
std::string MetricText(double value);

// Returns "window_auc=... window_loss=... window_calibration=... window_samples=...".
std::string WindowText(const TrainObserver::Window& window);

// Returns "test_auc=... test_logloss=..." for a test, after a line for each label if there are
// several. Names a loss other than bce: "loss=poisson test_rmse=...". Leaves the calibration out of
// the last line if the loss is bce. what: replaces "test".
std::string TestResult(const EvaluationResult& result, const std::vector<std::string>& labels,
                       const std::string& what = "test");
// Returns " calibration=new" if the rows of an update give a label another calibration, else
// " calibration=old". Empty if no label can have a calibration.
// result: result of the test before training. used: the model's calibrations, one per label; empty:
// none.
std::string CalibrationText(const EvaluationResult& result, const std::vector<Calibration>& used);

// Returns what makes the result of a test doubtful: ids that training has not seen, and an AUC that
// is hardly possible unless a column has the label.
std::vector<std::string> TestWarnings(const EvaluationResult& result, const ClusterConfig& config);

// Returns why a training that continued a model had no step left, and how to train it further.
std::string NothingTrained(const ClusterConfig& config, const TrainResult& result);

// Reports training in the log and in the metrics.
class TrainReport : public TrainObserver {
 public:
  // tasks: names of the labels. training: has the length of the training. ranks_items: single
  // predictions have no metrics.
  TrainReport(MetricRegistry& registry, std::vector<std::string> tasks,
              const TrainingConfig& training, bool ranks_items = false);

  void OnStep(const Step& step) override;
  void OnDensePush(uint64_t gap) override;
  void OnProgress(const Progress& progress) override;
  void OnEvaluation(uint64_t step, EvaluationSet set, const EvaluationResult& result) override;
  void OnCheckpoint(std::chrono::nanoseconds waited) override {
    checkpoint_seconds_.Observe(waited);
  }

  bool WantsSample() override { return history_ != nullptr && history_->WantsSample(); }
  void OnSample(const Sample& sample) override { history_->Add(sample); }

  // Also reports to a history. Lifetime: the history outlives the reports.
  void WriteTo(History& history) { history_ = &history; }

  ValidationCourse& course() { return course_; }
  const ValidationCourse& course() const { return course_; }

 private:
  // Returns the share of the training that is done, from 0 to 1; 0: unknown.
  double DoneOf(const Progress& progress);
  static void ReportFit(uint64_t step, EvaluationSet set, const std::string& label,
                        const EvaluationResult& result);
  void WarnOfOneClass(const char* set, const std::string& label, const EvaluationResult& result);

  // The latest predictions of one of several labels.
  struct TaskGauges {
    Gauge& auc;
    Gauge& rmse;
  };

  // Largest histogram buckets: the staleness of mode async, and the dense pushes of many ranks.
  static constexpr uint64_t kMaxStaleness = 1'024;
  static constexpr uint64_t kMaxDenseStaleness = 65'536;

  const std::vector<std::string> tasks_;
  const bool is_endless_;
  const bool ranks_items_;
  const double epochs_;
  const double max_steps_;  // 0: no limit.
  ValidationCourse course_;
  History* history_ = nullptr;          // May be null.
  std::optional<uint64_t> first_step_;  // First step of this start.
  double rows_ = 0;       // Best estimate so far of an epoch's number of rows; 0: none.
  double rows_part_ = 0;  // Share of the rows that had been read when `rows_` was estimated.
  LogLimiter skipped_log_{/*lines=*/10, std::chrono::seconds(10)};
  Counter& steps_;
  Counter& skipped_;
  Counter& samples_;
  Gauge& queued_;
  Gauge& loss_;
  Gauge& auc_;
  Gauge& window_loss_;
  Gauge& window_calibration_;
  Gauge& rmse_;
  Gauge& validation_auc_;
  Gauge& validation_log_loss_;
  Gauge& validation_rmse_;
  Gauge& validation_ndcg_;
  std::vector<TaskGauges> task_gauges_;
  Histogram& staleness_;
  Histogram& dense_staleness_;
  Histogram& wait_seconds_;
  Histogram& compute_seconds_;
  Histogram& checkpoint_seconds_;
};

}  // namespace simurgh
