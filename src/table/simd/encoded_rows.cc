// Compiled once per vector extension, see row_update.cc.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "table/simd/encoded_rows.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.
#include <cstring>

#include <hwy/highway.h>

#include "table/encoded_matrix.h"
#include "table/simd/encoded_rows.h"
#include "table/simd/rules-inl.h"
#include "tensor/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

// Requires a 16-bit format.
constexpr Half HalfOf(RowPrecision precision) {
  return precision == RowPrecision::kBf16 ? Half::kBf16 : Half::kF16;
}

HWY_INLINE void WidenAll(RowPrecision precision, const std::byte* from, uint32_t count, float* to) {
  if (precision == RowPrecision::kF32) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  const auto* halves = reinterpret_cast<const uint16_t*>(from);
  ForVectors(count, [&](auto d, uint32_t i) HWY_ATTR {
    hn::StoreU(Widen(d, HalfOf(precision), halves + i), d, to + i);
  });
}

// noise_at(tag, i): the noise of elements from i on.
template <typename NoiseAt>
HWY_INLINE void NarrowAll(RowPrecision precision, const float* from, uint32_t count,
                          const NoiseAt& noise_at, std::byte* to) {
  if (precision == RowPrecision::kF32) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  auto* halves = reinterpret_cast<uint16_t*>(to);
  ForVectors(count, [&](auto d, uint32_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> d32;
    Narrow(d, HalfOf(precision), hn::LoadU(d, from + i), noise_at(d32, i), halves + i);
  });
}

NotFinite UpdateEncodedRowsHere(const RowUpdateParameters& parameters, const RowFormat& format,
                                std::span<const EncodedRow> rows) {
  HWY_ALIGN float wide[kMaxRowFloats];
  float* state = wide + format.dim;
  float* scalars = state + format.vector_floats();
  const size_t scalar_bytes = format.shape.scalars * sizeof(float);
  NotFinite found;
  for (size_t r = 0; r < rows.size(); ++r) {
    const EncodedRow& row = rows[r];
    WidenAll(format.weights, row.values, format.dim, wide);
    WidenAll(format.state, row.values + format.state_offset(), format.vector_floats(), state);
    std::memcpy(scalars, row.values + format.scalars_offset(), scalar_bytes);
    const RowGradient update{wide, row.gradient};
    const NotFinite one = ApplyRule(parameters, {&update, 1});
    found.gradients |= one.gradients << r;
    found.rows |= one.rows << r;
    if ((one.gradients | one.rows) != 0) [[unlikely]]
      continue;
    const auto weight_noise = [&](auto d, uint32_t i) HWY_ATTR { return Noise(d, row.noise, i); };
    const auto state_noise = [&](auto d, uint32_t i)
                                 HWY_ATTR { return Noise(d, row.noise, format.dim + i); };
    NarrowAll(format.weights, wide, format.dim, weight_noise, row.values);
    NarrowAll(format.state, state, format.vector_floats(), state_noise,
              row.values + format.state_offset());
    std::memcpy(row.values + format.scalars_offset(), scalars, scalar_bytes);
  }
  return found;
}

void ConvertRowsHere(RowPrecision from, RowPrecision to, uint32_t count,
                     std::span<const RowConversion> rows) {
  HWY_ALIGN float wide[kMaxRowDim];
  const auto nearest = [](auto d, uint32_t) HWY_ATTR { return hn::Set(d, kToNearest); };
  for (const RowConversion& row : rows) {
    if (from == to) {
      std::memcpy(row.to, row.from, size_t{count} * SizeOf(from));
    } else if (to == RowPrecision::kF32) {
      WidenAll(from, row.from, count, reinterpret_cast<float*>(row.to));
    } else if (from == RowPrecision::kF32) {
      NarrowAll(to, reinterpret_cast<const float*>(row.from), count, nearest, row.to);
    } else {
      WidenAll(from, row.from, count, wide);
      NarrowAll(to, wide, count, nearest, row.to);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh {

HWY_EXPORT(UpdateEncodedRowsHere);
HWY_EXPORT(ConvertRowsHere);

NotFinite UpdateEncodedRows(const RowUpdateParameters& parameters, const RowFormat& format,
                            std::span<const EncodedRow> rows) {
  return HWY_DYNAMIC_DISPATCH(UpdateEncodedRowsHere)(parameters, format, rows);
}

void ConvertRows(RowPrecision from, RowPrecision to, uint32_t count,
                 std::span<const RowConversion> rows) {
  HWY_DYNAMIC_DISPATCH(ConvertRowsHere)(from, to, count, rows);
}

void WidenRow(RowPrecision precision, const std::byte* row, std::span<float> to) {
  const RowConversion conversion = {row, reinterpret_cast<std::byte*>(to.data())};
  ConvertRows(precision, RowPrecision::kF32, static_cast<uint32_t>(to.size()), {&conversion, 1});
}

void DecodeRow(const RowFormat& format, const std::byte* values, float* to) {
  WidenRow(format.weights, values, {to, format.dim});
  float* const state = to + format.dim;
  WidenRow(format.state, values + format.state_offset(), {state, format.vector_floats()});
  std::memcpy(state + format.vector_floats(), values + format.scalars_offset(),
              format.shape.scalars * sizeof(float));
}

void EncodeNewRow(const RowFormat& format, const float* from, std::byte* values) {
  const auto* weights = reinterpret_cast<const std::byte*>(from);
  const std::byte* state = weights + format.dim * sizeof(float);
  const RowConversion encoded[] = {{weights, values}, {state, values + format.state_offset()}};
  ConvertRows(RowPrecision::kF32, format.weights, format.dim, {&encoded[0], 1});
  ConvertRows(RowPrecision::kF32, format.state, format.vector_floats(), {&encoded[1], 1});
  std::memcpy(values + format.scalars_offset(), state + format.vector_floats() * sizeof(float),
              format.shape.scalars * sizeof(float));
}

}  // namespace simurgh
#endif
