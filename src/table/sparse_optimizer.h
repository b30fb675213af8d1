#pragma once

#include <cstdint>
#include <span>

#include "simurgh/config/table_config.h"
#include "table/simd/row_update.h"

namespace simurgh {

// The optimizer of a table's rows: how much state a row has, how it begins, and how gradients
// change rows. With learning rate l, gradient g, weight w, accumulator s, epsilon e, decay m:
//
//   sgd               w -= l * g
//   adagrad           w -= l * g / sqrt(s + e), with the old s; then s = s * m + g * g
//   row-wise adagrad  the same with one s for the row; then s = s * m + mean(g * g)
//
// After that each weight is clamped to +-weight_bound.
//
// Threads: any; immutable.
class SparseOptimizer {
 public:
  SparseOptimizer(const SparseOptimizerConfig& config, uint32_t dim, float weight_bound);

  // Floats of state behind a row's weights: 0, 1 or dim.
  uint32_t state_floats() const;

  // What the kernels are given, with the configured learning rate.
  const RowUpdateParameters& parameters() const { return parameters_; }

  void InitializeState(std::span<float> state) const;

  // Applies one gradient to each row, in order. All arithmetic is f32, and equal bit for bit on
  // every processor.
  void Update(float learning_rate, std::span<const RowGradient> rows) const;

 private:
  SparseOptimizerConfig config_;
  RowUpdateParameters parameters_;
};

}  // namespace simurgh
