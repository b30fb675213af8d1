#pragma once

#include <string>
#include <vector>

#include "simurgh/telemetry/metrics.h"
#include "simurgh/train/trainer.h"

namespace simurgh {

// Reports training in the log and in the metrics.
class TrainReport : public TrainObserver {
 public:
  // tasks: names of the labels.
  TrainReport(MetricRegistry& registry, std::vector<std::string> tasks);

  void OnStep(const Step& step) override;
  void OnDensePush(uint64_t gap) override;
  void OnProgress(const Progress& progress) override;
  void OnEvaluation(uint64_t step, EvaluationSet set, const EvaluationResult& result) override;

 private:
  // Of the last evaluation on one set.
  struct EvaluationGauges {
    EvaluationGauges(MetricRegistry& registry, const std::string& set,
                     const MetricLabels& labels = {});

    void Set(const EvaluationResult& result) const;

    Gauge& auc;
    Gauge& log_loss;
    Gauge& calibration;
    Gauge& normalized_entropy;
    Gauge& group_auc;
  };

  // Of one label, when there are several.
  struct TaskGauges {
    Gauge& auc;
    EvaluationGauges validation;
    EvaluationGauges test;
  };

  const std::vector<std::string> tasks_;
  Counter& steps_;
  Counter& skipped_;
  Counter& samples_;
  Gauge& loss_;
  Gauge& auc_;
  EvaluationGauges validation_;
  EvaluationGauges test_;
  std::vector<TaskGauges> task_gauges_;
  Histogram& staleness_;
  Histogram& ranks_staleness_;
  Histogram& dense_staleness_;
  Histogram& wait_seconds_;
  Histogram& compute_seconds_;
};

}  // namespace simurgh
