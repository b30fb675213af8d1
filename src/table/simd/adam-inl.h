// Adam with an update count per row; second moments per element or per row.

// clang-format off
#if defined(SIMURGH_TABLE_ADAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIMURGH_TABLE_ADAM_INL_H_
#undef SIMURGH_TABLE_ADAM_INL_H_
#else
#define SIMURGH_TABLE_ADAM_INL_H_
#endif
// clang-format on

#include <cmath>

#include "table/simd/row_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE V NextMoment(D d, float beta, V moment, V value) {
  return hn::Add(hn::Mul(hn::Set(d, beta), moment), hn::Mul(hn::Set(d, 1.0F - beta), value));
}

HWY_INLINE void UpdateAdam(const RowUpdateParameters& p, const RowGradient& row,
                           FiniteCheck& check) {
  float* first = row.weights + p.dim;
  float* second = first + p.dim;
  float& updates = second[p.dim];
  updates = HWY_MIN(updates + 1.0F, kMaxAdamUpdates);
  const AdamScales scales = AdamScalesOf(p, updates);
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto gradient = hn::LoadU(d, row.gradient + i);
    const auto m = NextMoment(d, p.beta1, hn::LoadU(d, first + i), gradient);
    const auto v = NextMoment(d, p.beta2, hn::LoadU(d, second + i), hn::Mul(gradient, gradient));
    Store(d, m, first + i, check);
    Store(d, v, second + i, check);
    const auto root =
        hn::Add(hn::Sqrt(hn::Mul(v, hn::Set(d, scales.square))), hn::Set(d, p.epsilon));
    const auto step = hn::Div(hn::Mul(hn::Set(d, scales.step), m), root);
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i,
                 check);
  });
}

HWY_INLINE void UpdateRowWiseAdam(const RowUpdateParameters& p, const RowGradient& row,
                                  FiniteCheck& check) {
  float* first = row.weights + p.dim;
  float& second = first[p.dim];
  float& updates = first[p.dim + 1];
  updates = HWY_MIN(updates + 1.0F, kMaxAdamUpdates);
  const AdamScales scales = AdamScalesOf(p, updates);
  second = p.beta2 * second +
           (1.0F - p.beta2) * (SumOfSquares(row.gradient, p.dim) / static_cast<float>(p.dim));
  check.Add(second);
  const float root = std::sqrt(second * scales.square) + p.epsilon;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto m = NextMoment(d, p.beta1, hn::LoadU(d, first + i), hn::LoadU(d, row.gradient + i));
    Store(d, m, first + i, check);
    const auto step = hn::Div(hn::Mul(hn::Set(d, scales.step), m), hn::Set(d, root));
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i,
                 check);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#endif  // Included once per target.
