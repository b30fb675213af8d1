#include "train/early_stopping.h"

#include <cmath>

namespace simurgh {

bool EarlyStopping::IsOver(const EvaluationResult& result) {
  if (config_.patience == 0) return false;
  const bool by_auc = config_.metric == EarlyStoppingConfig::Metric::kAuc;
  const double value = by_auc ? result.auc : -result.log_loss;
  const bool better = best_ ? value > *best_ + double{config_.min_improvement} : !std::isnan(value);
  if (better) {
    best_ = value;
    no_better_ = 0;
    return false;
  }
  return ++no_better_ >= config_.patience;
}

}  // namespace simurgh
