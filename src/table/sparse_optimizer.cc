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

SparseOptimizer::SparseOptimizer(const SparseOptimizerConfig& config, uint32_t dim,
                                 float weight_bound)
    : config_(config),
      parameters_{.rule = RuleOf(config),
                  .dim = dim,
                  .learning_rate = config.learning_rate,
                  .weight_bound = weight_bound,
                  .max_gradient_norm = config.max_gradient_norm,
                  .l2_decay = config.weight_decay,
                  .decoupled_decay = config.decoupled_weight_decay,
                  .momentum = config.momentum,
                  .epsilon = config.epsilon,
                  .accumulator_decay = config.accumulator_decay,
                  .beta1 = config.beta1,
                  .beta2 = config.beta2,
                  .l1 = config.l1,
                  .l2 = config.l2,
                  .group_l1 = config.group_l1,
                  .ftrl_beta = config.beta} {}

void SparseOptimizer::InitializeState(std::span<float> state) const {
  size_t zeros = state.size();
  switch (config_.kind) {
    case Kind::kAdagrad:
      zeros = 0;
      break;
    case Kind::kFtrl:
    case Kind::kGroupFtrl:  // z and then s.
      zeros = parameters_.dim;
      break;
    case Kind::kSgd:
    case Kind::kAdam:
      break;
  }
  std::fill(state.begin(), state.begin() + static_cast<ptrdiff_t>(zeros), 0.0F);
  std::fill(state.begin() + static_cast<ptrdiff_t>(zeros), state.end(),
            config_.initial_accumulator);
}

void SparseOptimizer::Update(float learning_rate, std::span<const RowGradient> rows) const {
  RowUpdateParameters parameters = parameters_;
  parameters.learning_rate = learning_rate;
  UpdateRows(parameters, rows);
}

}  // namespace simurgh
