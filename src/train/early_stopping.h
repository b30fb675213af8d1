#pragma once

#include <cstdint>

#include "simurgh/config/training_config.h"
#include "simurgh/train/evaluator.h"

namespace simurgh {

// Tells when evaluations have stopped getting better.
//
// Threads: one owner.
class EarlyStopping {
 public:
  explicit EarlyStopping(const EarlyStoppingConfig& config) : config_(config) {}

  // True when this is the `patience`-th evaluation in a row that is not better than the best before
  // it by more than min_improvement. NaN is never better.
  bool IsOver(const EvaluationResult& result);

 private:
  const EarlyStoppingConfig config_;
  bool has_best_ = false;
  double best_ = 0;  // Larger is better.
  uint32_t no_better_ = 0;
};

}  // namespace simurgh
