// The conversions of half.h on vectors of floats, for Highway kernels. Included once per target.

// clang-format off
#if defined(SIMURGH_TENSOR_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SIMURGH_TENSOR_HALF_INL_H_
#undef SIMURGH_TENSOR_HALF_INL_H_
#else
#define SIMURGH_TENSOR_HALF_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include "tensor/half.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// In this file, d is a tag of floats.

template <class D>
HWY_INLINE hn::VFromD<D> Widen(D d, Half format, const uint16_t* from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto half = hn::PromoteTo(d32, hn::LoadU(d16, from));
  if (format == Half::kBf16) return hn::BitCast(d, hn::ShiftLeft<16>(half));
  const auto magnitude = hn::And(half, hn::Set(d32, 0x7fffU));
  const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(d32, 0x8000U)));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  const auto tiny =
      hn::Sub(hn::BitCast(d, hn::Add(shifted, hn::Set(d32, 0x38800000U))), hn::Set(d, 0x1p-14F));
  const auto is_finite =
      hn::Lt(hn::BitCast(d, shifted), hn::BitCast(d, hn::Set(d32, 0x7c00U << 13)));
  const auto bias = hn::IfThenElse(hn::RebindMask(d32, is_finite), hn::Set(d32, 112U << 23),
                                   hn::Set(d32, 224U << 23));
  const auto normal = hn::BitCast(d, hn::Add(shifted, bias));
  // 0x400 is where normal numbers begin.
  const auto is_tiny = hn::Lt(normal, hn::Set(d, 0x1p-14F));
  return hn::Or(hn::IfThenElse(is_tiny, tiny, normal), hn::BitCast(d, sign));
}

// Returns ElementNoise of the elements from i on.
template <class D32>
HWY_INLINE hn::VFromD<D32> Noise(D32 d32, uint64_t noise, uint32_t i) {
  auto x = hn::Add(hn::Mul(hn::Iota(d32, i), hn::Set(d32, 0x9e3779b9U)),
                   hn::Set(d32, static_cast<uint32_t>(noise)));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(d32, 0x7feb352dU));
  x = hn::Xor(x, hn::ShiftRight<15>(x));
  x = hn::Mul(hn::Xor(x, hn::Set(d32, static_cast<uint32_t>(noise >> 32))),
              hn::Set(d32, 0x846ca68bU));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

// The numbers are below 2^16.
template <class D, class V, class V32>
HWY_INLINE hn::VFromD<hn::RebindToUnsigned<D>> Narrowed(D d, Half format, V value, V32 noise) {
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> i32;
  const auto bits = hn::BitCast(d32, value);
  const auto size_bits = hn::And(bits, hn::Set(d32, 0x7fffffffU));
  const auto sign = hn::ShiftLeft<15>(hn::ShiftRight<31>(bits));
  const auto low = hn::And(noise, hn::Set(d32, 0xffffU));
  auto magnitude = hn::ShiftRight<16>(hn::Add(size_bits, low));
  auto largest = hn::Set(d32, kMaxBf16Bits);
  if (format == Half::kF16) {
    const auto size = hn::BitCast(d, size_bits);
    const auto share =
        hn::Mul(hn::ConvertTo(d, hn::BitCast(i32, hn::ShiftRight<3>(low))), hn::Set(d, 0x1p-13F));
    const auto limit = hn::Set(d, 0x1p-14F);
    // Larger values would overflow the conversion; IfThenElse discards their lanes.
    const auto scaled = hn::Mul(hn::Min(size, limit), hn::Set(d, 0x1p24F));
    const auto tiny = hn::BitCast(d32, hn::ConvertTo(i32, hn::Add(scaled, share)));
    const auto normal = hn::Sub(hn::ShiftRight<13>(hn::Add(size_bits, hn::ShiftRight<3>(low))),
                                hn::Set(d32, 112U << 10));
    magnitude = hn::BitCast(
        d32, hn::IfThenElse(hn::Lt(size, limit), hn::BitCast(d, tiny), hn::BitCast(d, normal)));
    largest = hn::Set(d32, kMaxF16Bits);
  }
  return hn::Or(hn::Min(magnitude, largest), sign);
}

template <class D, class V, class V32>
HWY_INLINE void Narrow(D d, Half format, V value, V32 noise, uint16_t* to) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToSigned<D> i32;
  const auto rounded = hn::BitCast(i32, Narrowed(d, format, value, noise));
  hn::StoreU(hn::DemoteTo(d16, rounded), d16, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#endif  // Included once a target.
