#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "config/table_config.h"

namespace simurgh {

// The update rules of rows. With learning rate l, gradient g, weight w, epsilon e, dim D:
//
//   sgd               w -= l * g
//   with momentum u   v = u * v + g; w -= l * v
//   with Nesterov's   v = u * v + g; w -= l * (g + u * v)
//   adagrad           w -= l * g / sqrt(s + e), with the old s; then s = s * decay + g * g
//   row-wise adagrad  the same with one s for the row; then s = s * decay + mean(g * g)
//   adam              n += 1; m = b1 * m + (1 - b1) * g; v = b2 * v + (1 - b2) * g * g;
//                     w -= l / (1 - b1^n) * m / (sqrt(v / (1 - b2^n)) + e)
//   row-wise adam     the same with one v for the row, updated with mean(g * g)
//   ftrl              t = s + g * g; z += g - (sqrt(t) - sqrt(s)) / l * w; s = t;
//                     r = z beyond +-l1; w = -r / ((beta + sqrt(s)) / l + l2)
//                     with a decoupled decay before r: z += decoupled_weight_decay * (beta +
//                     sqrt(s) + l * l2) * w, so that without a gradient w -= l * decay * w
//   group ftrl        the same, w times max(0, 1 - sqrt(D) * group_l1 / norm(r))
//
// n counts the row's own updates and is stored in the row. Before the rule, a gradient longer than
// max_gradient_norm is scaled to that norm, weight_decay * w is added to the gradient, and
// decoupled_weight_decay * l * w is subtracted from the weight (with adam: AdamW), except by ftrl,
// which derives weights from z. After the rule,
// each weight is clamped to +-weight_bound.
//
// Source: Duchi et al., JMLR 12 (2011); Kingma and Ba, ICLR 2015; Loshchilov and Hutter, ICLR 2019;
// McMahan et al., KDD 2013; Ni et al., "Adaptive optimizers with sparse group lasso", ECML 2021.
//
// A rule is a struct of the namespace `rules`, an entry of UpdateRules, and a kernel, Update(), in
// table/simd/rules-inl.h. Its kind and keys are in config/table_config.h and
// config/table_section.cc.

// The place of a rule in UpdateRules.
enum class RowUpdateRule : uint8_t {};

struct RowUpdateParameters {
  RowUpdateRule rule{};
  uint32_t dim = 0;
  SparseOptimizerConfig optimizer;
  float weight_bound = 0;
  bool keeps_old_row = false;  // A row that would not be finite keeps its numbers.
};

// State of a rule per row: `vectors` times dim floats, then `scalars` floats.
struct RowStateShape {
  uint32_t vectors;
  uint32_t scalars;

  uint32_t floats(uint32_t dim) const { return vectors * dim + scalars; }
};

// A rule has the shape and the names of its state, vectors first. Fits() tells whether a table with
// this optimizer has the rule. The state of a new row is zero, unless Begin() fills it. Continue()
// fills that of a row with weights that training is to go on from, if it follows from them.
namespace rules {

using Kind = SparseOptimizerConfig::Kind;

struct Sgd {
  static constexpr RowStateShape kState = {0, 0};
  static constexpr std::array<std::string_view, 0> kNames = {};
  static bool Fits(const SparseOptimizerConfig& config) {
    return config.kind == Kind::kSgd && config.momentum == 0;
  }
};

struct Momentum {
  static constexpr RowStateShape kState = {1, 0};
  static constexpr std::array<std::string_view, 1> kNames = {"momentum.v"};
  static bool Fits(const SparseOptimizerConfig& config) {
    return config.kind == Kind::kSgd && config.momentum != 0 && !config.nesterov;
  }
};

struct Nesterov : Momentum {
  static bool Fits(const SparseOptimizerConfig& config) {
    return config.kind == Kind::kSgd && config.momentum != 0 && config.nesterov;
  }
};

struct Adagrad {
  static constexpr RowStateShape kState = {1, 0};
  static constexpr std::array<std::string_view, 1> kNames = {"adagrad.s"};
  static bool Fits(const SparseOptimizerConfig& config) {
    return config.kind == Kind::kAdagrad && !config.row_wise;
  }
  static void Begin(const RowUpdateParameters& parameters, std::span<float> state);
};

struct RowWiseAdagrad : Adagrad {
  static constexpr RowStateShape kState = {0, 1};
  static bool Fits(const SparseOptimizerConfig& config) {
    return config.kind == Kind::kAdagrad && config.row_wise;
  }
};

struct Adam {
  static constexpr RowStateShape kState = {2, 1};
  static constexpr std::array<std::string_view, 3> kNames = {"adam.m", "adam.v", "adam.n"};
  static bool Fits(const SparseOptimizerConfig& config) {
    return config.kind == Kind::kAdam && !config.row_wise;
  }
};

struct RowWiseAdam : Adam {
  static constexpr RowStateShape kState = {1, 2};
  static bool Fits(const SparseOptimizerConfig& config) {
    return config.kind == Kind::kAdam && config.row_wise;
  }
};

struct Ftrl {
  static constexpr RowStateShape kState = {2, 0};
  static constexpr std::array<std::string_view, 2> kNames = {"ftrl.z", "ftrl.s"};
  static bool Fits(const SparseOptimizerConfig& config) { return config.kind == Kind::kFtrl; }
  static void Begin(const RowUpdateParameters& parameters, std::span<float> state);
  // FTRL derives the weights from its state, so z is what these weights follow from at the
  // configured learning rate.
  static void Continue(const RowUpdateParameters& parameters, std::span<const float> weights,
                       std::span<float> state);
};

struct GroupFtrl : Ftrl {
  static bool Fits(const SparseOptimizerConfig& config) { return config.kind == Kind::kGroupFtrl; }
  static void Continue(const RowUpdateParameters& parameters, std::span<const float> weights,
                       std::span<float> state);
};

}  // namespace rules

using UpdateRules =
    std::tuple<rules::RowWiseAdam, rules::Adam, rules::Adagrad, rules::RowWiseAdagrad, rules::Sgd,
               rules::Momentum, rules::Nesterov, rules::Ftrl, rules::GroupFtrl>;

// Calls use(rule, place) for each of UpdateRules, until one returns true.
template <typename Use>
constexpr bool AnyUpdateRule(const Use& use) {
  return []<typename... Rules>(std::type_identity<std::tuple<Rules...>>, const Use& one) {
    uint8_t place = 0;
    return (one(Rules(), RowUpdateRule{place++}) || ...);
  }(std::type_identity<UpdateRules>(), use);
}

// The place of a rule.
template <typename Rule>
constexpr RowUpdateRule PlaceOf() {
  RowUpdateRule found{};
  AnyUpdateRule([&](auto rule, RowUpdateRule place) {
    found = place;
    return std::is_same_v<decltype(rule), Rule>;
  });
  return found;
}

constexpr RowStateShape StateShapeOf(RowUpdateRule rule) {
  RowStateShape shape{};
  AnyUpdateRule([&](auto one, RowUpdateRule place) {
    shape = one.kState;
    return place == rule;
  });
  return shape;
}

// Names of the state, vectors first.
std::span<const std::string_view> StateNamesOf(RowUpdateRule rule);

// Parameters of the kernels for a table's rows, with the configured learning rate.
RowUpdateParameters ParametersOf(const TableConfig& config);

// Fills the state of a new row.
void InitializeState(const RowUpdateParameters& parameters, std::span<float> state);

// Fills the state of a row with weights that training is to go on from.
void InitializeStateFor(const RowUpdateParameters& parameters, std::span<const float> weights,
                        std::span<float> state);

// Adam's bias correction of a row's n-th update, n from 1.
struct AdamScales {
  float step;    // learning_rate / (1 - beta1^n)
  float square;  // 1 / (1 - beta2^n)
};
AdamScales AdamScalesOf(const RowUpdateParameters& parameters, float updates);

// Largest count that a float holds exactly; the correction is 1 long before.
inline constexpr float kMaxAdamUpdates = 16'777'216.0F;  // 2^24

}  // namespace simurgh
