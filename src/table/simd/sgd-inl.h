// Stochastic gradient descent: plain, with momentum, with Nesterov momentum.

// clang-format off
#if defined(SIMURGH_TABLE_SGD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIMURGH_TABLE_SGD_INL_H_
#undef SIMURGH_TABLE_SGD_INL_H_
#else
#define SIMURGH_TABLE_SGD_INL_H_
#endif
// clang-format on

#include "table/simd/row_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

HWY_INLINE void UpdateSgd(const RowUpdateParameters& p, const RowGradient& row,
                          FiniteCheck& check) {
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto step = hn::Mul(hn::Set(d, p.learning_rate), hn::LoadU(d, row.gradient + i));
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
    const auto momentum = hn::Set(d, p.momentum);
    const auto velocity = hn::Add(hn::Mul(momentum, hn::LoadU(d, velocities + i)), gradient);
    Store(d, velocity, velocities + i, check);
    auto direction = velocity;
    if constexpr (kNesterov) direction = hn::Add(gradient, hn::Mul(momentum, velocity));
    const auto step = hn::Mul(hn::Set(d, p.learning_rate), direction);
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i,
                 check);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#endif  // Included once per target.
