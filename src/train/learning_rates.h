#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "config/table_config.h"

namespace simurgh {

// The learning rate at a trainer's step, from 0. With base rate r, n warm-up steps and
// x = (step - n) / decay_steps:
//
//   step < n     r * (step + 1) / n
//   constant     r
//   linear       r * (1 - (1 - end_factor) * min(x, 1))
//   exponential  r * max(decay_factor ^ x, end_factor)
//   cosine       r * (end_factor + (1 - end_factor) * (1 + cos(pi * min(x, 1))) / 2)
//
// Source: cosine as in Loshchilov and Hutter, "SGDR", ICLR 2017, without restarts.
float LearningRateAt(float base_rate, const LearningRateSchedule& schedule, uint64_t step);

// The schedules of all tables. A trainer's pushes carry the rates, so that only the trainer has
// schedules.
//
// Threads: any.
class LearningRates {
 public:
  explicit LearningRates(const std::vector<TableConfig>& tables);

  // Returns the rates by table.
  std::vector<float> At(uint64_t step) const;

  // Replaces the schedules, from the next push on.
  // Errors: INVALID_ARGUMENT for another number of tables.
  Status Change(const std::vector<TableConfig>& tables);

 private:
  mutable Mutex mutex_;
  std::vector<SparseOptimizerConfig> optimizers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace simurgh
