#include "table/sparse_optimizer.h"

#include <algorithm>

namespace simurgh {
namespace {

RowUpdateRule RuleOf(const SparseOptimizerConfig& config) {
  if (config.kind == SparseOptimizerConfig::Kind::kSgd) return RowUpdateRule::kSgd;
  return config.row_wise ? RowUpdateRule::kRowWiseAdagrad : RowUpdateRule::kAdagrad;
}

}  // namespace

SparseOptimizer::SparseOptimizer(const SparseOptimizerConfig& config, uint32_t dim,
                                 float weight_bound)
    : config_(config),
      parameters_{.rule = RuleOf(config),
                  .dim = dim,
                  .learning_rate = config.learning_rate,
                  .epsilon = config.epsilon,
                  .decay = config.accumulator_decay,
                  .weight_bound = weight_bound} {}

uint32_t SparseOptimizer::state_floats() const {
  switch (parameters_.rule) {
    case RowUpdateRule::kSgd:
      return 0;
    case RowUpdateRule::kRowWiseAdagrad:
      return 1;
    case RowUpdateRule::kAdagrad:
      break;
  }
  return parameters_.dim;
}

void SparseOptimizer::InitializeState(std::span<float> state) const {
  std::fill(state.begin(), state.end(), config_.initial_accumulator);
}

void SparseOptimizer::Update(float learning_rate, std::span<const RowGradient> rows) const {
  RowUpdateParameters parameters = parameters_;
  parameters.learning_rate = learning_rate;
  UpdateRows(parameters, rows);
}

}  // namespace simurgh
