// Compiled once for each vector extension.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/round_to_bf16.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.
#include <hwy/highway.h>

#include "nn/cpu/round_to_bf16.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The numbers are below 2^16.
template <class D32>
HWY_INLINE hn::VFromD<D32> Rounded(D32 d32, hn::VFromD<D32> bits) {
  const auto upper = hn::ShiftRight<16>(bits);
  const auto is_odd = hn::And(upper, hn::Set(d32, 1U));
  const auto nearest = hn::ShiftRight<16>(hn::Add(bits, hn::Add(is_odd, hn::Set(d32, 0x7fffU))));
  const auto quiet = hn::Or(upper, hn::Set(d32, 0x40U));
  const auto magnitude = hn::And(bits, hn::Set(d32, 0x7fffffffU));
  return hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, 0x7f800000U)), quiet, nearest);
}

template <class D>
HWY_INLINE void RoundVector(D d, const float* from, uint16_t* to) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> i32;
  const auto rounded = Rounded(d32, hn::BitCast(d32, hn::LoadU(d, from)));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(i32, rounded)), d16, to);
}

void RoundToBf16Impl(std::span<const float> from, uint16_t* to) {
  const hn::ScalableTag<float> many;
  const hn::CappedTag<float, 1> one;
  size_t i = 0;
  for (; i + hn::Lanes(many) <= from.size(); i += hn::Lanes(many)) {
    RoundVector(many, from.data() + i, to + i);
  }
  for (; i < from.size(); ++i) RoundVector(one, from.data() + i, to + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh::cpu {

HWY_EXPORT(RoundToBf16Impl);

void RoundToBf16(std::span<const float> from, uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(RoundToBf16Impl)(from, to);
}

}  // namespace simurgh::cpu
#endif
