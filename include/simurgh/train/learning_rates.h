#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/config/table_config.h"

namespace simurgh {

// The learning rate at a trainer's step, from 0. With base rate r, warm-up of n
// steps, and x = (step - n) / decay_steps:
//
//   step < n     r * (step + 1) / n
//   constant     r
//   linear       r * (1 - (1 - end_factor) * min(x, 1))
//   exponential  r * max(decay_factor ^ x, end_factor)
//   cosine       r * (end_factor + (1 - end_factor) * (1 + cos(pi * min(x, 1))) / 2)
//
// Source: cosine as in Loshchilov and Hutter, "SGDR", ICLR 2017, without restarts.
float LearningRateAt(float base_rate, const LearningRateSchedule& schedule, uint64_t step);

// The schedules of all tables, as the trainer follows them: its pushes carry the rates, so that one
// process decides and all others follow.
//
// Threads: any.
class LearningRates {
 public:
  explicit LearningRates(const std::vector<TableConfig>& tables);

  // By table.
  std::vector<float> At(uint64_t step) const;

  // Follows the schedules of these tables from the next step that is pushed.
  // Errors: INVALID_ARGUMENT for another number of tables.
  Status Change(const std::vector<TableConfig>& tables);

 private:
  mutable Mutex mutex_;
  std::vector<SparseOptimizerConfig> optimizers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace simurgh
