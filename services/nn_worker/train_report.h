#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/cluster_config.h"
#include "config/training_config.h"
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
  // tasks: names of the labels. training: has the length of the training.
  TrainReport(MetricRegistry& registry, std::vector<std::string> tasks,
              const TrainingConfig& training);

  void OnStep(const Step& step) override;
  void OnDensePush(uint64_t gap) override;
  void OnProgress(const Progress& progress) override;
  void OnEvaluation(uint64_t step, EvaluationSet set, const EvaluationResult& result) override;
  void OnCheckpoint(std::chrono::nanoseconds waited) override {
    checkpoint_seconds_.Observe(waited);
  }

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

  Histogram& StageSeconds(const char* stage) const {
    return registry_.GetHistogram("simurgh_nn_stage_seconds",
                                  "Time a step spends waiting for embeddings and computing.",
                                  LatencyBuckets(), {{"stage", stage}});
  }

  MetricRegistry& registry_;
  const std::vector<std::string> tasks_;
  const bool is_endless_;
  const double epochs_;
  const double max_steps_;  // 0: no limit.
  ValidationCourse course_;
  std::optional<uint64_t> first_step_;  // First step of this start.
  double rows_ = 0;       // Best estimate so far of an epoch's number of rows; 0: none.
  double rows_part_ = 0;  // Share of the rows that had been read when `rows_` was estimated.
  LogLimiter skipped_log_{/*lines=*/10, std::chrono::seconds(10)};
  Counter& steps_ = registry_.GetCounter("simurgh_nn_steps_total", "Training steps.");
  Counter& skipped_ =
      registry_.GetCounter("simurgh_nn_skipped_steps_total",
                           "Steps skipped because the loss or a gradient was not finite.");
  Counter& samples_ = registry_.GetCounter("simurgh_nn_samples_total", "Samples trained on.");
  Gauge& queued_ = registry_.GetGauge("simurgh_nn_queued_batches",
                                      "Batches that have been read and are not pulled yet.");
  Gauge& loss_ = registry_.GetGauge("simurgh_nn_loss", "Mean loss since the last report.");
  Gauge& auc_ = registry_.GetGauge(
      "simurgh_nn_auc", "AUC of the latest predictions, each made before training on it.");
  Gauge& window_loss_ = registry_.GetGauge(
      "simurgh_nn_window_loss", "Mean loss of the latest predictions, each made before its step.");
  Gauge& window_calibration_ =
      registry_.GetGauge("simurgh_nn_window_calibration",
                         "Mean of the latest predictions over the mean of their labels.");
  Gauge& rmse_ = registry_.GetGauge("simurgh_nn_rmse",
                                    "Root mean squared error since the last report, of predictions "
                                    "made before training on them; labels of numbers.");
  Gauge& validation_auc_ =
      registry_.GetGauge("simurgh_nn_validation_auc", "AUC of the last validation.");
  Gauge& validation_log_loss_ =
      registry_.GetGauge("simurgh_nn_validation_log_loss", "Log loss of the last validation.");
  Gauge& validation_rmse_ =
      registry_.GetGauge("simurgh_nn_validation_rmse",
                         "Root mean squared error of the last validation; labels of numbers.");
  std::vector<TaskGauges> task_gauges_;
  Histogram& staleness_ = registry_.GetHistogram(
      "simurgh_nn_staleness_steps",
      "Earlier steps of this rank that were unacknowledged at a batch's pull.",
      PowersOfTwo(kMaxStaleness));
  Histogram& dense_staleness_ = registry_.GetHistogram(
      "simurgh_nn_dense_staleness_pushes",
      "Mode async: dense pushes of all ranks between the weights of a push and itself.",
      PowersOfTwo(kMaxDenseStaleness));
  Histogram& wait_seconds_ = StageSeconds("wait");
  Histogram& compute_seconds_ = StageSeconds("compute");
  Histogram& checkpoint_seconds_ =
      registry_.GetHistogram("simurgh_nn_checkpoint_wait_seconds",
                             "Time that training waited for a checkpoint.", LatencyBuckets());
};

}  // namespace simurgh
