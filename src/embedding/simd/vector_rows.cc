// Highway compiles this file once per vector extension and selects the widest one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "embedding/simd/vector_rows.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.
#include <limits>

#include <hwy/highway.h>

#include "embedding/simd/vector_rows.h"
#include "tensor/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

// Vectors have at most 16 lanes: the most common dim.
using Wide = hn::CappedTag<float, 16>;
using One = hn::CappedTag<float, 1>;

// Calls `step(tag, i)` for vectors of elements in [first, end), the last few one by one.
template <typename Step>
HWY_INLINE void ForLanes(uint32_t first, uint32_t end, const Step& step) {
  const Wide wide;
  const auto lanes = static_cast<uint32_t>(hn::Lanes(wide));
  uint32_t i = first;
  for (; i + lanes <= end; i += lanes) step(wide, i);
  for (; i < end; ++i) step(One(), i);
}

// Returns the bits of the absolute value.
template <class D, class V>
HWY_INLINE hn::VFromD<hn::RebindToSigned<D>> SizeBits(D d, V value) {
  return hn::BitCast(hn::RebindToSigned<D>(), hn::Abs(value));
}

void NarrowRowHere(Half format, float factor, std::span<const float> from, uint16_t* to) {
  const auto narrow = [&](auto d, uint32_t i) HWY_ATTR {
    using D = decltype(d);
    const hn::Rebind<uint16_t, D> d16;
    const hn::RebindToUnsigned<D> d32;
    const hn::RebindToSigned<D> i32;
    const auto value = hn::Mul(hn::Set(d, factor), hn::LoadU(d, from.data() + i));
    const auto rounded = hn::BitCast(i32, Narrowed(d, format, value, hn::Set(d32, kToNearest)));
    const auto is_finite = hn::Lt(SizeBits(d, value), hn::Set(i32, int32_t{kNotFiniteBits}));
    const auto halves = hn::IfThenElse(is_finite, rounded, hn::Set(i32, int32_t{kHalfNan}));
    hn::StoreU(hn::DemoteTo(d16, halves), d16, to + i);
  };
  ForLanes(0, static_cast<uint32_t>(from.size()), narrow);
}

void WidenRowHere(Half format, float factor, const uint16_t* from, std::span<float> to) {
  const auto widen = [&](auto d, uint32_t i) HWY_ATTR {
    const auto value = Widen(d, format, from + i);
    // bf16: infinite or NaN as its float. f16: those values widen to more than 65,504.
    const auto limit =
        hn::Set(d, format == Half::kBf16 ? std::numeric_limits<float>::max() : 65'504.0F);
    const auto is_finite = hn::Le(hn::Abs(value), limit);
    const auto nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    const auto scaled = hn::Mul(hn::Set(d, factor), value);
    hn::StoreU(hn::IfThenElse(is_finite, scaled, nan), d, to.data() + i);
  };
  ForLanes(0, static_cast<uint32_t>(to.size()), widen);
}

HWY_INLINE uint32_t LargestBits(float factor, const float* from, uint32_t first, uint32_t end) {
  int32_t largest = 0;
  ForLanes(first, end, [&](auto d, uint32_t i) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> i32;
    const auto value = hn::Mul(hn::Set(d, factor), hn::LoadU(d, from + i));
    const int32_t here = hn::GetLane(hn::MaxOfLanes(i32, SizeBits(d, value)));
    largest = here > largest ? here : largest;
  });
  return static_cast<uint32_t>(largest);
}

// Returns ChanceOf for the elements from i on.
template <class D>
HWY_INLINE hn::VFromD<D> Chance(D d, const ByteRounding& rounding, uint32_t i) {
  if (!rounding.by_chance) return hn::Set(d, kNearestNoise);
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> i32;
  const auto noise = hn::ShiftRight<8>(Noise(d32, rounding.noise, i));
  return hn::Mul(hn::ConvertTo(d, hn::BitCast(i32, noise)), hn::Set(d, 0x1p-24F));
}

void NarrowToBytesHere(std::span<const uint32_t> dims, float factor, const float* from,
                       const ByteRounding& rounding, int8_t* to, float* scales) {
  uint32_t first = 0;
  for (size_t v = 0; v < dims.size(); first += dims[v++]) {
    const uint32_t end = first + dims[v];
    const ByteScale scale = ScaleOf(LargestBits(factor, from, first, end));
    scales[v] = scale.scale;
    ForLanes(first, end, [&](auto d, uint32_t i) HWY_ATTR {
      using D = decltype(d);
      const hn::Rebind<int8_t, D> d8;
      const hn::RebindToSigned<D> i32;
      if (scale.to_bytes == 0) {
        hn::StoreU(hn::Zero(d8), d8, to + i);
        return;
      }
      const auto value =
          hn::Mul(hn::Mul(hn::Set(d, factor), hn::LoadU(d, from + i)), hn::Set(d, scale.to_bytes));
      const auto size = hn::Min(hn::Abs(value), hn::Set(d, kLargestByte));
      const auto whole = hn::Floor(size);
      const auto up = hn::Lt(Chance(d, rounding, i), hn::Sub(size, whole));
      const auto byte = hn::Add(whole, hn::IfThenElseZero(up, hn::Set(d, 1.0F)));
      const auto number = hn::ConvertTo(i32, hn::CopySignToAbs(byte, value));
      hn::StoreU(hn::DemoteTo(d8, number), d8, to + i);
    });
  }
}

void WidenBytesHere(std::span<const uint32_t> dims, float factor, const int8_t* from,
                    const float* scales, float* to) {
  uint32_t first = 0;
  for (size_t v = 0; v < dims.size(); first += dims[v++]) {
    const float scale = factor * scales[v];
    ForLanes(first, first + dims[v], [&](auto d, uint32_t i) HWY_ATTR {
      using D = decltype(d);
      const hn::Rebind<int8_t, D> d8;
      const hn::RebindToSigned<D> i32;
      const auto number = hn::ConvertTo(d, hn::PromoteTo(i32, hn::LoadU(d8, from + i)));
      hn::StoreU(hn::Mul(hn::Set(d, scale), number), d, to + i);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh {

HWY_EXPORT(NarrowRowHere);
HWY_EXPORT(WidenRowHere);
HWY_EXPORT(NarrowToBytesHere);
HWY_EXPORT(WidenBytesHere);

void NarrowRow(Half format, float factor, std::span<const float> from, uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(NarrowRowHere)(format, factor, from, to);
}

void WidenRow(Half format, float factor, const uint16_t* from, std::span<float> to) {
  HWY_DYNAMIC_DISPATCH(WidenRowHere)(format, factor, from, to);
}

void NarrowToBytes(std::span<const uint32_t> dims, float factor, const float* from,
                   const ByteRounding& rounding, int8_t* to, float* scales) {
  HWY_DYNAMIC_DISPATCH(NarrowToBytesHere)(dims, factor, from, rounding, to, scales);
}

void WidenBytes(std::span<const uint32_t> dims, float factor, const int8_t* from,
                const float* scales, float* to) {
  HWY_DYNAMIC_DISPATCH(WidenBytesHere)(dims, factor, from, scales, to);
}

}  // namespace simurgh
#endif
