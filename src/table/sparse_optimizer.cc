#include "table/sparse_optimizer.h"

#include <algorithm>
#include <cmath>

#include "table/simd/row_update.h"

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

// Returns base to the power of exponent. Squares repeatedly, because std::pow is not bit-identical
// across machines. Does not branch on the bits of the exponent, because they are unpredictable.
double Power(double base, uint32_t exponent) {
  double power = 1;
  while (exponent != 0) {
    const double factors[] = {1, base};
    power *= factors[exponent & 1];
    base *= base;
    exponent >>= 1;
  }
  return power;
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

void InitializeStateFor(const RowUpdateParameters& parameters, std::span<const float> weights,
                        std::span<float> state) {
  InitializeState(parameters, state);
  const bool is_group = parameters.rule == RowUpdateRule::kGroupFtrl;
  if (parameters.rule != RowUpdateRule::kFtrl && !is_group) return;
  const float strength = (parameters.ftrl_beta + std::sqrt(parameters.initial_accumulator)) /
                             parameters.learning_rate +
                         parameters.l2;
  float squares = 0;
  for (const float weight : weights) squares += weight * strength * (weight * strength);
  const float norm = std::sqrt(squares);
  const float threshold = std::sqrt(static_cast<float>(parameters.dim)) * parameters.group_l1;
  const float growth = is_group && norm > 0 ? 1.0F + threshold / norm : 1.0F;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    state[i] = -(weights[i] * strength * growth + std::copysign(parameters.l1, weights[i]));
  }
}

AdamScales AdamScalesOf(const RowUpdateParameters& parameters, float updates) {
  const auto count = static_cast<uint32_t>(updates);
  const double first = 1 - Power(parameters.beta1, count);
  const double second = 1 - Power(parameters.beta2, count);
  return {static_cast<float>(parameters.learning_rate / first), static_cast<float>(1 / second)};
}

}  // namespace simurgh
