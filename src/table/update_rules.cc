#include "table/update_rules.h"

#include <algorithm>

#include "base/check.h"

namespace simurgh {
namespace {

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

// The z of FTRL that these weights follow from. group_l1: 0 for FTRL without groups.
void SetLinear(const RowUpdateParameters& parameters, float group_l1,
               std::span<const float> weights, std::span<float> state) {
  const SparseOptimizerConfig& optimizer = parameters.optimizer;
  const float strength =
      (optimizer.beta + std::sqrt(optimizer.initial_accumulator)) / optimizer.learning_rate +
      optimizer.l2;
  float squares = 0;
  for (const float weight : weights) squares += weight * strength * (weight * strength);
  const float norm = std::sqrt(squares);
  const float threshold = std::sqrt(static_cast<float>(parameters.dim)) * group_l1;
  const float growth = norm > 0 ? 1.0F + threshold / norm : 1.0F;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    state[i] = -(weights[i] * strength * growth + std::copysign(optimizer.l1, weights[i]));
  }
}

}  // namespace

namespace rules {

void Adagrad::Begin(const RowUpdateParameters& parameters, std::span<float> state) {
  std::ranges::fill(state, parameters.optimizer.initial_accumulator);
}

void Ftrl::Begin(const RowUpdateParameters& parameters, std::span<float> state) {
  std::ranges::fill(state.subspan(parameters.dim), parameters.optimizer.initial_accumulator);
}

void Ftrl::Continue(const RowUpdateParameters& parameters, std::span<const float> weights,
                    std::span<float> state) {
  SetLinear(parameters, /*group_l1=*/0, weights, state);
}

void GroupFtrl::Continue(const RowUpdateParameters& parameters, std::span<const float> weights,
                         std::span<float> state) {
  SetLinear(parameters, parameters.optimizer.group_l1, weights, state);
}

}  // namespace rules

std::span<const std::string_view> StateNamesOf(RowUpdateRule rule) {
  std::span<const std::string_view> names;
  AnyUpdateRule([&](auto one, RowUpdateRule place) {
    using Rule = decltype(one);
    static_assert(Rule::kNames.size() == Rule::kState.vectors + Rule::kState.scalars);
    names = Rule::kNames;
    return place == rule;
  });
  return names;
}

RowUpdateParameters ParametersOf(const TableConfig& config) {
  RowUpdateParameters parameters{.dim = config.dim,
                                 .optimizer = config.optimizer,
                                 .weight_bound = config.weight_bound,
                                 .keeps_old_row = config.when_not_finite == WhenNotFinite::kRefuse};
  const bool fits = AnyUpdateRule([&](auto rule, RowUpdateRule place) {
    parameters.rule = place;
    return rule.Fits(config.optimizer);
  });
  SIMURGH_CHECK(fits);
  return parameters;
}

void InitializeState(const RowUpdateParameters& parameters, std::span<float> state) {
  std::ranges::fill(state, 0.0F);
  AnyUpdateRule([&](auto rule, RowUpdateRule place) {
    if constexpr (requires { rule.Begin(parameters, state); }) {
      if (place == parameters.rule) rule.Begin(parameters, state);
    }
    return place == parameters.rule;
  });
}

void InitializeStateFor(const RowUpdateParameters& parameters, std::span<const float> weights,
                        std::span<float> state) {
  InitializeState(parameters, state);
  AnyUpdateRule([&](auto rule, RowUpdateRule place) {
    if constexpr (requires { rule.Continue(parameters, weights, state); }) {
      if (place == parameters.rule) rule.Continue(parameters, weights, state);
    }
    return place == parameters.rule;
  });
}

AdamScales AdamScalesOf(const RowUpdateParameters& parameters, float updates) {
  const SparseOptimizerConfig& optimizer = parameters.optimizer;
  const auto count = static_cast<uint32_t>(updates);
  const double first = 1 - Power(optimizer.beta1, count);
  const double second = 1 - Power(optimizer.beta2, count);
  return {static_cast<float>(optimizer.learning_rate / first), static_cast<float>(1 / second)};
}

}  // namespace simurgh
