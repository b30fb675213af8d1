#include "table/sparse_optimizer.h"

#include <algorithm>

namespace simurgh {
namespace {

using Kind = SparseOptimizerConfig::Kind;

RowUpdateRule RuleOf(const SparseOptimizerConfig& config) {
  switch (config.kind) {
    case Kind::kSgd:
      if (config.momentum == 0) return RowUpdateRule::kSgd;
      return config.nesterov ? RowUpdateRule::kNesterov : RowUpdateRule::kMomentum;
    case Kind::kAdagrad:
      return config.row_wise ? RowUpdateRule::kRowWiseAdagrad : RowUpdateRule::kAdagrad;
    case Kind::kAdam:
      return config.row_wise ? RowUpdateRule::kRowWiseAdam : RowUpdateRule::kAdam;
    case Kind::kFtrl:
      return RowUpdateRule::kFtrl;
    case Kind::kGroupFtrl:
      break;
  }
  return RowUpdateRule::kGroupFtrl;
}

}  // namespace

RowUpdateParameters ParametersOf(const TableConfig& config) {
  const SparseOptimizerConfig& optimizer = config.optimizer;
  return {.rule = RuleOf(optimizer),
          .dim = config.dim,
          .learning_rate = optimizer.learning_rate,
          .weight_bound = config.weight_bound,
          .max_gradient_norm = optimizer.max_gradient_norm,
          .l2_decay = optimizer.weight_decay,
          .decoupled_decay = optimizer.decoupled_weight_decay,
          .momentum = optimizer.momentum,
          .epsilon = optimizer.epsilon,
          .accumulator_decay = optimizer.accumulator_decay,
          .beta1 = optimizer.beta1,
          .beta2 = optimizer.beta2,
          .l1 = optimizer.l1,
          .l2 = optimizer.l2,
          .group_l1 = optimizer.group_l1,
          .ftrl_beta = optimizer.beta,
          .initial_accumulator = optimizer.initial_accumulator,
          .keeps_old_row = config.when_not_finite == WhenNotFinite::kRefuse};
}

void InitializeState(const RowUpdateParameters& parameters, std::span<float> state) {
  const RowUpdateRule rule = parameters.rule;
  size_t zeros = state.size();
  if (rule == RowUpdateRule::kAdagrad || rule == RowUpdateRule::kRowWiseAdagrad) zeros = 0;
  if (rule == RowUpdateRule::kFtrl || rule == RowUpdateRule::kGroupFtrl) zeros = parameters.dim;
  std::ranges::fill(state.first(zeros), 0.0F);
  std::ranges::fill(state.subspan(zeros), parameters.initial_accumulator);
}

}  // namespace simurgh
