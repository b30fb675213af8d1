#pragma once

#include <cstdint>
#include <optional>

#include "simurgh/config/training_config.h"
#include "simurgh/train/evaluator.h"

namespace simurgh {

// Decides when evaluations have stopped improving.
//
// Threads: one owner.
class EarlyStopping {
 public:
  explicit EarlyStopping(const EarlyStoppingConfig& config) : config_(config) {}

  // Returns true for the `patience`-th evaluation in a row that does not exceed the best one by
  // more than min_improvement. NaN is never better.
  bool IsOver(const EvaluationResult& result);

 private:
  const EarlyStoppingConfig config_;
  std::optional<double> best_;  // Larger is better.
  uint32_t no_better_ = 0;
};

}  // namespace simurgh
