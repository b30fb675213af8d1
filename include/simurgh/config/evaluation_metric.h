#pragma once

namespace simurgh {

// What makes an evaluation better than another one. With several labels, of the first one.
enum class EvaluationMetric {
  kAuc,       // Larger is better.
  kLogLoss,   // Smaller is better.
  kGroupAuc,  // Larger is better.
  kRmse,      // Smaller is better.
  kLoss,      // Mean of the task's loss. Smaller is better.
};

// As in YAML.
inline const char* NameOf(EvaluationMetric metric) {
  switch (metric) {
    case EvaluationMetric::kAuc:
      return "auc";
    case EvaluationMetric::kLogLoss:
      return "log_loss";
    case EvaluationMetric::kGroupAuc:
      return "group_auc";
    case EvaluationMetric::kRmse:
      return "rmse";
    case EvaluationMetric::kLoss:
      return "loss";
  }
  return "";
}

// In results and manifests.
inline const char* ReportedName(EvaluationMetric metric) {
  return metric == EvaluationMetric::kLogLoss ? "logloss" : NameOf(metric);
}

// The value as a score, of which larger ones are better.
inline double ScoreOf(EvaluationMetric metric, double value) {
  const bool larger = metric == EvaluationMetric::kAuc || metric == EvaluationMetric::kGroupAuc;
  return larger ? value : -value;
}

}  // namespace simurgh
