#include "train/early_stopping.h"

#include <cmath>

namespace simurgh {

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

}  // namespace simurgh
