#pragma once

#include <cstdint>

#include "simurgh/config/training_config.h"
#include "simurgh/train/checkpoint_port.h"
#include "simurgh/train/evaluator.h"

namespace simurgh {

// Decides when evaluations have stopped improving.
//
// Threads: one owner.
class EarlyStopping {
 public:
  explicit EarlyStopping(const EarlyStoppingConfig& config, const EarlyStoppingState& state = {})
      : config_(config), state_(state) {}

  const EarlyStoppingState& state() const { return state_; }

  // Returns true for the `patience`-th evaluation in a row that does not exceed the best one by
  // more than min_improvement. NaN is never better.
  bool IsOver(const EvaluationResult& result);

 private:
  const EarlyStoppingConfig config_;
  EarlyStoppingState state_;
};

}  // namespace simurgh
