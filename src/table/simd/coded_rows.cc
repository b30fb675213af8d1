// Compiled once for each vector extension, as row_update.cc is.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "table/simd/coded_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <cstring>

#include <hwy/highway.h>

#include "table/simd/coded_rows.h"
#include "table/simd/half.h"
#include "table/simd/rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

// The conversions of half.h on vectors; d is of floats.

template <class D>
HWY_INLINE hn::VFromD<D> Widen(D d, RowPrecision precision, const uint16_t* from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto half = hn::PromoteTo(d32, hn::LoadU(d16, from));
  if (precision == RowPrecision::kBf16) return hn::BitCast(d, hn::ShiftLeft<16>(half));
  const auto magnitude = hn::And(half, hn::Set(d32, 0x7fffU));
  const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(d32, 0x8000U)));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  const auto tiny =
      hn::Sub(hn::BitCast(d, hn::Add(shifted, hn::Set(d32, 0x38800000U))), hn::Set(d, 0x1p-14F));
  const auto normal = hn::BitCast(d, hn::Add(shifted, hn::Set(d32, 112U << 23)));
  // 0x400 is where normal numbers begin.
  const auto is_tiny = hn::Lt(normal, hn::Set(d, 0x1p-14F));
  return hn::Or(hn::IfThenElse(is_tiny, tiny, normal), hn::BitCast(d, sign));
}

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

template <class D, class V, class V32>
HWY_INLINE void Narrow(D d, RowPrecision precision, V value, V32 noise, uint16_t* to) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> i32;
  const auto bits = hn::BitCast(d32, value);
  const auto size_bits = hn::And(bits, hn::Set(d32, 0x7fffffffU));
  const auto sign = hn::ShiftLeft<15>(hn::ShiftRight<31>(bits));
  const auto low = hn::And(noise, hn::Set(d32, 0xffffU));
  auto magnitude = hn::ShiftRight<16>(hn::Add(size_bits, low));
  auto largest = hn::Set(d32, kMaxBf16Bits);
  if (precision == RowPrecision::kF16) {
    const auto size = hn::BitCast(d, size_bits);
    const auto share =
        hn::Mul(hn::ConvertTo(d, hn::BitCast(i32, hn::ShiftRight<3>(low))), hn::Set(d, 0x1p-13F));
    const auto limit = hn::Set(d, 0x1p-14F);
    // Only what is below the limit counts; more would not fit the conversion.
    const auto scaled = hn::Mul(hn::Min(size, limit), hn::Set(d, 0x1p24F));
    const auto tiny = hn::BitCast(d32, hn::ConvertTo(i32, hn::Add(scaled, share)));
    const auto normal = hn::Sub(hn::ShiftRight<13>(hn::Add(size_bits, hn::ShiftRight<3>(low))),
                                hn::Set(d32, 112U << 10));
    magnitude = hn::BitCast(
        d32, hn::IfThenElse(hn::Lt(size, limit), hn::BitCast(d, tiny), hn::BitCast(d, normal)));
    largest = hn::Set(d32, kMaxF16Bits);
  }
  const auto rounded = hn::Or(hn::Min(magnitude, largest), sign);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(i32, rounded)), d16, to);
}

HWY_INLINE void WidenAll(RowPrecision precision, const std::byte* from, uint32_t count, float* to) {
  if (precision == RowPrecision::kF32) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  const auto* halves = reinterpret_cast<const uint16_t*>(from);
  ForVectors(count, [&](auto d, uint32_t i)
                        HWY_ATTR { hn::StoreU(Widen(d, precision, halves + i), d, to + i); });
}

// `first` is the number of the first element in the row.
HWY_INLINE void NarrowAll(RowPrecision precision, const float* from, uint32_t count, uint64_t noise,
                          uint32_t first, std::byte* to) {
  if (precision == RowPrecision::kF32) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  auto* halves = reinterpret_cast<uint16_t*>(to);
  ForVectors(count, [&](auto d, uint32_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> d32;
    Narrow(d, precision, hn::LoadU(d, from + i), Noise(d32, noise, first + i), halves + i);
  });
}

void UpdateCodedRowsHere(const RowUpdateParameters& parameters, const RowFormat& format,
                         std::span<const CodedRow> rows) {
  HWY_ALIGN float wide[kMaxRowFloats];
  float* state = wide + format.dim;
  float* scalars = state + format.vector_floats();
  const size_t scalar_bytes = format.shape.scalars * sizeof(float);
  for (const CodedRow& row : rows) {
    WidenAll(format.weights, row.values, format.dim, wide);
    WidenAll(format.state, row.values + format.state_offset(), format.vector_floats(), state);
    std::memcpy(scalars, row.values + format.scalars_offset(), scalar_bytes);
    const RowGradient update{wide, row.gradient};
    ApplyRule(parameters, {&update, 1});
    NarrowAll(format.weights, wide, format.dim, row.noise, 0, row.values);
    NarrowAll(format.state, state, format.vector_floats(), row.noise, format.dim,
              row.values + format.state_offset());
    std::memcpy(row.values + format.scalars_offset(), scalars, scalar_bytes);
  }
}

HWY_INLINE void NarrowToNearest(RowPrecision precision, const float* from, uint32_t count,
                                std::byte* to) {
  auto* halves = reinterpret_cast<uint16_t*>(to);
  ForVectors(count, [&](auto d, uint32_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> d32;
    Narrow(d, precision, hn::LoadU(d, from + i), hn::Set(d32, 0x8000U), halves + i);
  });
}

void ConvertRowsHere(RowPrecision from, RowPrecision to, uint32_t count,
                     std::span<const RowConversion> rows) {
  HWY_ALIGN float wide[kMaxRowDim];
  for (const RowConversion& row : rows) {
    if (from == to) {
      std::memcpy(row.to, row.from, count * SizeOf(from));
    } else if (to == RowPrecision::kF32) {
      WidenAll(from, row.from, count, reinterpret_cast<float*>(row.to));
    } else if (from == RowPrecision::kF32) {
      NarrowToNearest(to, reinterpret_cast<const float*>(row.from), count, row.to);
    } else {
      WidenAll(from, row.from, count, wide);
      NarrowToNearest(to, wide, count, row.to);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh {

HWY_EXPORT(UpdateCodedRowsHere);
HWY_EXPORT(ConvertRowsHere);

void UpdateCodedRows(const RowUpdateParameters& parameters, const RowFormat& format,
                     std::span<const CodedRow> rows) {
  HWY_DYNAMIC_DISPATCH(UpdateCodedRowsHere)(parameters, format, rows);
}

void ConvertRows(RowPrecision from, RowPrecision to, uint32_t count,
                 std::span<const RowConversion> rows) {
  HWY_DYNAMIC_DISPATCH(ConvertRowsHere)(from, to, count, rows);
}

}  // namespace simurgh
#endif
