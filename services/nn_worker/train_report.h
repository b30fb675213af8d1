#pragma once

#include "simurgh/telemetry/metrics.h"
#include "simurgh/train/trainer.h"

namespace simurgh {

// Tells of training in the log and in the metrics.
class TrainReport : public TrainObserver {
 public:
  explicit TrainReport(MetricRegistry& registry);

  void OnStep(const Step& step) override;
  void OnProgress(const Progress& progress) override;
  void OnEvaluation(uint64_t step, const EvaluationResult& result) override;

 private:
  Counter& steps_;
  Counter& skipped_;
  Counter& samples_;
  Gauge& loss_;
  Gauge& auc_;
  Gauge& test_auc_;
  Gauge& test_log_loss_;
  Gauge& test_calibration_;
  Histogram& staleness_;
  Histogram& wait_seconds_;
  Histogram& compute_seconds_;
};

}  // namespace simurgh
