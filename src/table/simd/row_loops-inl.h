// Loops over the elements of a row for the update kernels. Included once per target.

// clang-format off
#if defined(SIMURGH_TABLE_ROW_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIMURGH_TABLE_ROW_LOOPS_INL_H_
#undef SIMURGH_TABLE_ROW_LOOPS_INL_H_
#else
#define SIMURGH_TABLE_ROW_LOOPS_INL_H_
#endif
// clang-format on

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

// Whether all added numbers are finite. The product of a number and zero is zero, or NaN if the
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

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#endif  // Included once per target.
