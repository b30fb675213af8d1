// The update rules of rows, and the loops over elements that they share. Included once per target.

// clang-format off
#if defined(SIMURGH_TABLE_RULES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIMURGH_TABLE_RULES_INL_H_
#undef SIMURGH_TABLE_RULES_INL_H_
#else
#define SIMURGH_TABLE_RULES_INL_H_
#endif
// clang-format on

#include <cmath>
#include <cstring>
#include <span>

#include <hwy/highway.h>

#include "table/simd/row_update.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The widest vector whose lanes divide those of a sum.
using Wide = hn::CappedTag<float, kSumLanes>;
using One = hn::CappedTag<float, 1>;

// Calls step(tag, i) for vectors of elements from i on, and for the last elements one by one.
template <typename Step>
HWY_INLINE void ForVectors(uint32_t dim, const Step& step) {
  const Wide wide;
  const auto lanes = static_cast<uint32_t>(hn::Lanes(wide));
  uint32_t i = 0;
  for (; i + lanes <= dim; i += lanes) step(wide, i);
  for (; i < dim; ++i) step(One(), i);
}

// Checks that all added numbers are finite. The product of a number and zero is zero, or NaN if the
// number is not finite.
class FiniteCheck {
 public:
  HWY_INLINE FiniteCheck() : sum_(hn::Zero(Wide())) {}

  HWY_INLINE void Add(Wide d, hn::VFromD<Wide> values) {
    sum_ = hn::MulAdd(values, hn::Zero(d), sum_);
  }
  HWY_INLINE void Add(One, hn::VFromD<One> value) { Add(hn::GetLane(value)); }
  HWY_INLINE void Add(float value) { sum_of_single_ += value * 0.0F; }
  HWY_INLINE void Add(const float* values, uint32_t count) {
    ForVectors(count, [&](auto d, uint32_t i) HWY_ATTR { Add(d, hn::LoadU(d, values + i)); });
  }
  HWY_INLINE bool all_finite() const {
    return sum_of_single_ == 0 && hn::AllTrue(Wide(), hn::Eq(sum_, hn::Zero(Wide())));
  }

 private:
  hn::VFromD<Wide> sum_;
  float sum_of_single_ = 0;
};

template <class D, class V>
HWY_INLINE void Store(D d, V values, float* to, FiniteCheck& check) {
  check.Add(d, values);
  hn::StoreU(values, d, to);
}

template <class D, class V>
HWY_INLINE void StoreClamped(D d, V weights, float bound, float* to, FiniteCheck& check) {
  Store(d, hn::Max(hn::Set(d, -bound), hn::Min(hn::Set(d, bound), weights)), to, check);
}

// Each group of lanes traverses the row separately, so the sum does not depend on the vector width.
HWY_INLINE float SumOfSquares(const float* values, uint32_t dim) {
  const Wide d;
  const auto width = static_cast<uint32_t>(hn::Lanes(d));
  const uint32_t whole = dim / kSumLanes * kSumLanes;
  HWY_ALIGN float lanes[kSumLanes];
  for (uint32_t lane = 0; lane < kSumLanes; lane += width) {
    auto sum = hn::Zero(d);
    for (uint32_t i = lane; i < whole; i += kSumLanes) {
      const auto value = hn::LoadU(d, values + i);
      sum = hn::Add(sum, hn::Mul(value, value));
    }
    hn::StoreU(sum, d, lanes + lane);
  }
  for (uint32_t i = whole; i < dim; ++i) lanes[i % kSumLanes] += values[i] * values[i];
  return AddLanes(lanes);
}

// Stochastic gradient descent: plain, with momentum, with Nesterov momentum.

HWY_INLINE void Update(rules::Sgd, const RowUpdateParameters& p, const RowGradient& row,
                       FiniteCheck& check) {
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto step =
        hn::Mul(hn::Set(d, p.optimizer.learning_rate), hn::LoadU(d, row.gradient + i));
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i,
                 check);
  });
}

template <bool kNesterov>
HWY_INLINE void UpdateMomentum(const RowUpdateParameters& p, const RowGradient& row,
                               FiniteCheck& check) {
  float* velocities = row.weights + p.dim;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto gradient = hn::LoadU(d, row.gradient + i);
    const auto momentum = hn::Set(d, p.optimizer.momentum);
    const auto velocity = hn::Add(hn::Mul(momentum, hn::LoadU(d, velocities + i)), gradient);
    Store(d, velocity, velocities + i, check);
    auto direction = velocity;
    if constexpr (kNesterov) direction = hn::Add(gradient, hn::Mul(momentum, velocity));
    const auto step = hn::Mul(hn::Set(d, p.optimizer.learning_rate), direction);
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i,
                 check);
  });
}

HWY_INLINE void Update(rules::Momentum, const RowUpdateParameters& p, const RowGradient& row,
                       FiniteCheck& check) {
  UpdateMomentum<false>(p, row, check);
}

HWY_INLINE void Update(rules::Nesterov, const RowUpdateParameters& p, const RowGradient& row,
                       FiniteCheck& check) {
  UpdateMomentum<true>(p, row, check);
}

// Adagrad, with one accumulator per element or per row.

HWY_INLINE void Update(rules::Adagrad, const RowUpdateParameters& p, const RowGradient& row,
                       FiniteCheck& check) {
  float* state = row.weights + p.dim;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto gradient = hn::LoadU(d, row.gradient + i);
    const auto sum = hn::LoadU(d, state + i);
    const auto step = hn::Div(hn::Mul(hn::Set(d, p.optimizer.learning_rate), gradient),
                              hn::Sqrt(hn::Add(sum, hn::Set(d, p.optimizer.epsilon))));
    Store(d,
          hn::Add(hn::Mul(sum, hn::Set(d, p.optimizer.accumulator_decay)),
                  hn::Mul(gradient, gradient)),
          state + i, check);
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i,
                 check);
  });
}

HWY_INLINE void Update(rules::RowWiseAdagrad, const RowUpdateParameters& p, const RowGradient& row,
                       FiniteCheck& check) {
  float* state = row.weights + p.dim;
  const float sum = state[0] + p.optimizer.epsilon;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto step =
        hn::Div(hn::Mul(hn::Set(d, p.optimizer.learning_rate), hn::LoadU(d, row.gradient + i)),
                hn::Sqrt(hn::Set(d, sum)));
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i,
                 check);
  });
  state[0] = state[0] * p.optimizer.accumulator_decay +
             SumOfSquares(row.gradient, p.dim) / static_cast<float>(p.dim);
  check.Add(state[0]);
}

// Adam with an update count per row; second moments per element or per row.

template <class D, class V>
HWY_INLINE V NextMoment(D d, float beta, V moment, V value) {
  return hn::Add(hn::Mul(hn::Set(d, beta), moment), hn::Mul(hn::Set(d, 1.0F - beta), value));
}

HWY_INLINE void Update(rules::Adam, const RowUpdateParameters& p, const RowGradient& row,
                       FiniteCheck& check) {
  float* first = row.weights + p.dim;
  float* second = first + p.dim;
  float& updates = second[p.dim];
  updates = HWY_MIN(updates + 1.0F, kMaxAdamUpdates);
  const AdamScales scales = AdamScalesOf(p, updates);
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto gradient = hn::LoadU(d, row.gradient + i);
    const auto m = NextMoment(d, p.optimizer.beta1, hn::LoadU(d, first + i), gradient);
    const auto v =
        NextMoment(d, p.optimizer.beta2, hn::LoadU(d, second + i), hn::Mul(gradient, gradient));
    Store(d, m, first + i, check);
    Store(d, v, second + i, check);
    const auto root =
        hn::Add(hn::Sqrt(hn::Mul(v, hn::Set(d, scales.square))), hn::Set(d, p.optimizer.epsilon));
    const auto step = hn::Div(hn::Mul(hn::Set(d, scales.step), m), root);
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i,
                 check);
  });
}

HWY_INLINE void Update(rules::RowWiseAdam, const RowUpdateParameters& p, const RowGradient& row,
                       FiniteCheck& check) {
  float* first = row.weights + p.dim;
  float& second = first[p.dim];
  float& updates = first[p.dim + 1];
  updates = HWY_MIN(updates + 1.0F, kMaxAdamUpdates);
  const AdamScales scales = AdamScalesOf(p, updates);
  second =
      p.optimizer.beta2 * second +
      (1.0F - p.optimizer.beta2) * (SumOfSquares(row.gradient, p.dim) / static_cast<float>(p.dim));
  check.Add(second);
  const float root = std::sqrt(second * scales.square) + p.optimizer.epsilon;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto m =
        NextMoment(d, p.optimizer.beta1, hn::LoadU(d, first + i), hn::LoadU(d, row.gradient + i));
    Store(d, m, first + i, check);
    const auto step = hn::Div(hn::Mul(hn::Set(d, scales.step), m), hn::Set(d, root));
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i,
                 check);
  });
}

// FTRL-proximal, with an optional penalty on whole rows.

template <class D>
HWY_INLINE auto Strength(D d, const RowUpdateParameters& p, const RowGradient& row, uint32_t i) {
  const auto root = hn::Sqrt(hn::LoadU(d, row.weights + size_t{2} * p.dim + i));
  return hn::Add(
      hn::Div(hn::Add(hn::Set(d, p.optimizer.beta), root), hn::Set(d, p.optimizer.learning_rate)),
      hn::Set(d, p.optimizer.l2));
}

// Adds the gradient to z and n; returns -z shrunk by l1.
template <class D>
HWY_INLINE auto Accumulate(D d, const RowUpdateParameters& p, const RowGradient& row, uint32_t i,
                           FiniteCheck& check) {
  float* linear = row.weights + p.dim;
  float* squares = linear + p.dim;
  const auto gradient = hn::LoadU(d, row.gradient + i);
  const auto old = hn::LoadU(d, squares + i);
  const auto sum = hn::Add(old, hn::Mul(gradient, gradient));
  Store(d, sum, squares + i, check);
  const auto sigma =
      hn::Div(hn::Sub(hn::Sqrt(sum), hn::Sqrt(old)), hn::Set(d, p.optimizer.learning_rate));
  const auto weights = hn::LoadU(d, row.weights + i);
  const auto pull = hn::Mul(sigma, weights);
  auto z = hn::Add(hn::LoadU(d, linear + i), hn::Sub(gradient, pull));
  if (p.optimizer.decoupled_weight_decay != 0) {
    // The weight is z divided by the strength.
    const auto share = hn::Set(d, p.optimizer.learning_rate * p.optimizer.decoupled_weight_decay);
    z = hn::Add(z, hn::Mul(share, hn::Mul(Strength(d, p, row, i), weights)));
  }
  Store(d, z, linear + i, check);
  const auto zero = hn::Zero(d);
  const auto l1 = hn::Set(d, p.optimizer.l1);
  return hn::Add(hn::Min(hn::Add(z, l1), zero), hn::Max(hn::Sub(z, l1), zero));
}

HWY_INLINE void Update(rules::Ftrl, const RowUpdateParameters& p, const RowGradient& row,
                       FiniteCheck& check) {
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto left = hn::Sub(hn::Zero(d), Accumulate(d, p, row, i, check));
    StoreClamped(d, hn::Div(left, Strength(d, p, row, i)), p.weight_bound, row.weights + i, check);
  });
}

HWY_INLINE void Update(rules::GroupFtrl, const RowUpdateParameters& p, const RowGradient& row,
                       FiniteCheck& check) {
  HWY_ALIGN float left[kMaxRowDim];
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    hn::StoreU(hn::Sub(hn::Zero(d), Accumulate(d, p, row, i, check)), d, left + i);
  });
  const float norm = std::sqrt(SumOfSquares(left, p.dim));
  const float threshold = std::sqrt(static_cast<float>(p.dim)) * p.optimizer.group_l1;
  const float share = norm > threshold ? 1.0F - threshold / norm : 0.0F;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto kept = hn::Mul(hn::Set(d, share), hn::LoadU(d, left + i));
    StoreClamped(d, hn::Div(kept, Strength(d, p, row, i)), p.weight_bound, row.weights + i, check);
  });
}

HWY_INLINE bool Prepares(const RowUpdateParameters& p) {
  return p.optimizer.max_gradient_norm != 0 || p.optimizer.weight_decay != 0 ||
         p.optimizer.decoupled_weight_decay != 0;
}

// Common preparation of a row: clips the gradient, adds the L2 decay to it, and subtracts the
// decoupled decay from the weights. `changed` receives the gradient.
HWY_INLINE RowGradient Prepared(const RowUpdateParameters& p, const RowGradient& row,
                                float* changed) {
  float scale = 1.0F;
  if (p.optimizer.max_gradient_norm > 0) {
    const float norm = std::sqrt(SumOfSquares(row.gradient, p.dim));
    if (norm > p.optimizer.max_gradient_norm) scale = p.optimizer.max_gradient_norm / norm;
  }
  // FTRL derives the weights from its state, which it decays instead.
  const bool is_derived = p.rule == PlaceOf<rules::Ftrl>() || p.rule == PlaceOf<rules::GroupFtrl>();
  const float kept =
      is_derived ? 1.0F : 1.0F - p.optimizer.learning_rate * p.optimizer.decoupled_weight_decay;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto weights = hn::LoadU(d, row.weights + i);
    const auto gradient = hn::Mul(hn::Set(d, scale), hn::LoadU(d, row.gradient + i));
    hn::StoreU(hn::Add(gradient, hn::Mul(hn::Set(d, p.optimizer.weight_decay), weights)), d,
               changed + i);
    hn::StoreU(hn::Mul(weights, hn::Set(d, kept)), d, row.weights + i);
  });
  return {row.weights, changed};
}

// Checks row by row, which costs more than ForRows.
template <typename Rule>
HWY_INLINE NotFinite ForCheckedRows(const RowUpdateParameters& p, std::span<const RowGradient> rows,
                                    const Rule& rule) {
  const uint32_t floats = p.dim + StateShapeOf(p.rule).floats(p.dim);
  HWY_ALIGN float changed[kMaxRowDim];
  HWY_ALIGN float old[kMaxRowFloats];
  NotFinite found;
  for (size_t i = 0; i < rows.size(); ++i) {
    const RowGradient& row = rows[i];
    FiniteCheck gradient;
    gradient.Add(row.gradient, p.dim);
    if (!gradient.all_finite()) {
      found.gradients |= uint64_t{1} << i;
      continue;
    }
    if (p.keeps_old_row) std::memcpy(old, row.weights, floats * sizeof(float));
    FiniteCheck result;
    rule(p, Prepares(p) ? Prepared(p, row, changed) : row, result);
    if (result.all_finite()) continue;
    found.rows |= uint64_t{1} << i;
    if (p.keeps_old_row) std::memcpy(row.weights, old, floats * sizeof(float));
  }
  return found;
}

template <typename Rule>
HWY_INLINE NotFinite ForRows(const RowUpdateParameters& p, std::span<const RowGradient> rows,
                             const Rule& rule) {
  FiniteCheck gradients;
  for (const RowGradient& row : rows) gradients.Add(row.gradient, p.dim);
  if (p.keeps_old_row || !gradients.all_finite()) return ForCheckedRows(p, rows, rule);
  FiniteCheck results;
  if (Prepares(p)) {
    HWY_ALIGN float changed[kMaxRowDim];
    for (const RowGradient& row : rows) rule(p, Prepared(p, row, changed), results);
  } else {
    for (const RowGradient& row : rows) rule(p, row, results);
  }
  NotFinite found;
  if (results.all_finite()) return found;
  const uint32_t floats = p.dim + StateShapeOf(p.rule).floats(p.dim);
  for (size_t i = 0; i < rows.size(); ++i) {
    FiniteCheck row;
    row.Add(rows[i].weights, floats);
    if (!row.all_finite()) found.rows |= uint64_t{1} << i;
  }
  return found;
}

// The kernel of a rule as a function that is always inlined, unlike a lambda.
template <typename Rule>
struct Kernel {
  HWY_INLINE void operator()(const RowUpdateParameters& p, const RowGradient& row,
                             FiniteCheck& check) const {
    Update(Rule(), p, row, check);
  }
};

template <typename... Rules>
HWY_INLINE NotFinite ApplyOneOf(std::type_identity<std::tuple<Rules...>> /*rules*/,
                                const RowUpdateParameters& parameters,
                                std::span<const RowGradient> rows) {
  NotFinite found;
  uint8_t place = 0;
  static_cast<void>(((RowUpdateRule{place++} == parameters.rule
                          ? (found = ForRows(parameters, rows, Kernel<Rules>()), true)
                          : false) ||
                     ...));
  return found;
}

HWY_INLINE NotFinite ApplyRule(const RowUpdateParameters& parameters,
                               std::span<const RowGradient> rows) {
  return ApplyOneOf(std::type_identity<UpdateRules>(), parameters, rows);
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#endif  // Included once per target.
