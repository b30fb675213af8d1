// Adagrad, with one accumulator per element or per row.

// clang-format off
#if defined(SIMURGH_TABLE_ADAGRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIMURGH_TABLE_ADAGRAD_INL_H_
#undef SIMURGH_TABLE_ADAGRAD_INL_H_
#else
#define SIMURGH_TABLE_ADAGRAD_INL_H_
#endif
// clang-format on

#include "table/simd/row_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

HWY_INLINE void UpdateAdagrad(const RowUpdateParameters& p, const RowGradient& row,
                              FiniteCheck& check) {
  float* state = row.weights + p.dim;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto gradient = hn::LoadU(d, row.gradient + i);
    const auto sum = hn::LoadU(d, state + i);
    const auto step = hn::Div(hn::Mul(hn::Set(d, p.learning_rate), gradient),
                              hn::Sqrt(hn::Add(sum, hn::Set(d, p.epsilon))));
    Store(d, hn::Add(hn::Mul(sum, hn::Set(d, p.accumulator_decay)), hn::Mul(gradient, gradient)),
          state + i, check);
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i,
                 check);
  });
}

HWY_INLINE void UpdateRowWiseAdagrad(const RowUpdateParameters& p, const RowGradient& row,
                                     FiniteCheck& check) {
  float* state = row.weights + p.dim;
  const float sum = state[0] + p.epsilon;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto step = hn::Div(hn::Mul(hn::Set(d, p.learning_rate), hn::LoadU(d, row.gradient + i)),
                              hn::Sqrt(hn::Set(d, sum)));
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i,
                 check);
  });
  state[0] = state[0] * p.accumulator_decay +
             SumOfSquares(row.gradient, p.dim) / static_cast<float>(p.dim);
  check.Add(state[0]);
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#endif  // Included once per target.
