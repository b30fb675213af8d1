// FTRL-proximal, with an optional penalty on whole rows.

// clang-format off
#if defined(SIMURGH_TABLE_FTRL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIMURGH_TABLE_FTRL_INL_H_
#undef SIMURGH_TABLE_FTRL_INL_H_
#else
#define SIMURGH_TABLE_FTRL_INL_H_
#endif
// clang-format on

#include <cmath>

#include "table/simd/row_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

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
  const auto sigma = hn::Div(hn::Sub(hn::Sqrt(sum), hn::Sqrt(old)), hn::Set(d, p.learning_rate));
  const auto pull = hn::Mul(sigma, hn::LoadU(d, row.weights + i));
  const auto z = hn::Add(hn::LoadU(d, linear + i), hn::Sub(gradient, pull));
  Store(d, z, linear + i, check);
  const auto zero = hn::Zero(d);
  const auto l1 = hn::Set(d, p.l1);
  return hn::Add(hn::Min(hn::Add(z, l1), zero), hn::Max(hn::Sub(z, l1), zero));
}

template <class D>
HWY_INLINE auto Strength(D d, const RowUpdateParameters& p, const RowGradient& row, uint32_t i) {
  const auto root = hn::Sqrt(hn::LoadU(d, row.weights + size_t{2} * p.dim + i));
  return hn::Add(hn::Div(hn::Add(hn::Set(d, p.ftrl_beta), root), hn::Set(d, p.learning_rate)),
                 hn::Set(d, p.l2));
}

HWY_INLINE void UpdateFtrl(const RowUpdateParameters& p, const RowGradient& row,
                           FiniteCheck& check) {
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto left = hn::Sub(hn::Zero(d), Accumulate(d, p, row, i, check));
    StoreClamped(d, hn::Div(left, Strength(d, p, row, i)), p.weight_bound, row.weights + i, check);
  });
}

HWY_INLINE void UpdateGroupFtrl(const RowUpdateParameters& p, const RowGradient& row,
                                FiniteCheck& check) {
  HWY_ALIGN float left[kMaxRowDim];
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    hn::StoreU(hn::Sub(hn::Zero(d), Accumulate(d, p, row, i, check)), d, left + i);
  });
  const float norm = std::sqrt(SumOfSquares(left, p.dim));
  const float threshold = std::sqrt(static_cast<float>(p.dim)) * p.group_l1;
  const float share = norm > threshold ? 1.0F - threshold / norm : 0.0F;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto kept = hn::Mul(hn::Set(d, share), hn::LoadU(d, left + i));
    StoreClamped(d, hn::Div(kept, Strength(d, p, row, i)), p.weight_bound, row.weights + i, check);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#endif  // Included once per target.
