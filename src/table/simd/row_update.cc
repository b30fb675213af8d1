// Compiled once for each vector extension the compiler knows; the widest one the processor has is
// chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "table/simd/row_update.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "table/simd/row_update.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors that divide the lanes of a sum.
using Wide = hn::CappedTag<float, kSumLanes>;
using One = hn::CappedTag<float, 1>;

// Calls `step(tag, i)` for vectors of elements from i on, the last few one by one.
template <typename Step>
HWY_INLINE void ForVectors(uint32_t dim, const Step& step) {
  const Wide wide;
  const auto lanes = static_cast<uint32_t>(hn::Lanes(wide));
  uint32_t i = 0;
  for (; i + lanes <= dim; i += lanes) step(wide, i);
  for (; i < dim; ++i) step(One(), i);
}

template <class D, class V>
HWY_INLINE void StoreClamped(D d, V weights, float bound, float* to) {
  hn::StoreU(hn::Max(hn::Set(d, -bound), hn::Min(hn::Set(d, bound), weights)), d, to);
}

HWY_INLINE void UpdateSgd(const RowUpdateParameters& p, const RowGradient& row) {
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto step = hn::Mul(hn::Set(d, p.learning_rate), hn::LoadU(d, row.gradient + i));
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i);
  });
}

HWY_INLINE void UpdateAdagrad(const RowUpdateParameters& p, const RowGradient& row) {
  float* state = row.weights + p.dim;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto gradient = hn::LoadU(d, row.gradient + i);
    const auto sum = hn::LoadU(d, state + i);
    const auto step = hn::Div(hn::Mul(hn::Set(d, p.learning_rate), gradient),
                              hn::Sqrt(hn::Add(sum, hn::Set(d, p.epsilon))));
    hn::StoreU(hn::Add(hn::Mul(sum, hn::Set(d, p.decay)), hn::Mul(gradient, gradient)), d,
               state + i);
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i);
  });
}

// Each group of vector lanes walks the row by itself, so that the lanes of the sum are the same
// whatever the width.
HWY_INLINE float MeanSquare(const float* gradient, uint32_t dim) {
  const Wide d;
  const auto width = static_cast<uint32_t>(hn::Lanes(d));
  const uint32_t whole = dim / kSumLanes * kSumLanes;
  HWY_ALIGN float lanes[kSumLanes];
  for (uint32_t lane = 0; lane < kSumLanes; lane += width) {
    auto sum = hn::Zero(d);
    for (uint32_t i = lane; i < whole; i += kSumLanes) {
      const auto value = hn::LoadU(d, gradient + i);
      sum = hn::Add(sum, hn::Mul(value, value));
    }
    hn::StoreU(sum, d, lanes + lane);
  }
  for (uint32_t i = whole; i < dim; ++i) lanes[i % kSumLanes] += gradient[i] * gradient[i];
  return AddLanes(lanes) / static_cast<float>(dim);
}

HWY_INLINE void UpdateRowWiseAdagrad(const RowUpdateParameters& p, const RowGradient& row) {
  float* state = row.weights + p.dim;
  const float sum = state[0] + p.epsilon;
  ForVectors(p.dim, [&](auto d, uint32_t i) HWY_ATTR {
    const auto step = hn::Div(hn::Mul(hn::Set(d, p.learning_rate), hn::LoadU(d, row.gradient + i)),
                              hn::Sqrt(hn::Set(d, sum)));
    StoreClamped(d, hn::Sub(hn::LoadU(d, row.weights + i), step), p.weight_bound, row.weights + i);
  });
  state[0] = state[0] * p.decay + MeanSquare(row.gradient, p.dim);
}

void UpdateRowsHere(const RowUpdateParameters& parameters, std::span<const RowGradient> rows) {
  switch (parameters.rule) {
    case RowUpdateRule::kSgd:
      for (const RowGradient& row : rows) UpdateSgd(parameters, row);
      break;
    case RowUpdateRule::kAdagrad:
      for (const RowGradient& row : rows) UpdateAdagrad(parameters, row);
      break;
    case RowUpdateRule::kRowWiseAdagrad:
      for (const RowGradient& row : rows) UpdateRowWiseAdagrad(parameters, row);
      break;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh {

HWY_EXPORT(UpdateRowsHere);

void UpdateRows(const RowUpdateParameters& parameters, std::span<const RowGradient> rows) {
  HWY_DYNAMIC_DISPATCH(UpdateRowsHere)(parameters, rows);
}

}  // namespace simurgh
#endif
