#include <cstring>

#include "simurgh/tensor/half.h"
#include "table/simd/encoded_rows.h"

namespace simurgh {
namespace {

float Widened(RowPrecision precision, const std::byte* from) {
  if (precision == RowPrecision::kF32) {
    float value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  uint16_t half;
  std::memcpy(&half, from, sizeof(half));
  return precision == RowPrecision::kBf16 ? FromBf16(half) : FromF16(half);
}

void Store(RowPrecision precision, float value, uint32_t noise, std::byte* to) {
  if (precision == RowPrecision::kF32) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const uint16_t half =
      precision == RowPrecision::kBf16 ? ToBf16(value, noise) : ToF16(value, noise);
  std::memcpy(to, &half, sizeof(half));
}

// noise(i): for element i of the row, weights and then state.
template <typename Noise>
void EncodeRow(const RowFormat& format, const float* from, const Noise& noise, std::byte* values) {
  for (uint32_t i = 0; i < format.dim; ++i) {
    Store(format.weights, from[i], noise(i), values + i * SizeOf(format.weights));
  }
  for (uint32_t i = 0; i < format.vector_floats(); ++i) {
    Store(format.state, from[format.dim + i], noise(format.dim + i),
          values + format.state_offset() + i * SizeOf(format.state));
  }
  std::memcpy(values + format.scalars_offset(), from + format.dim + format.vector_floats(),
              format.shape.scalars * sizeof(float));
}

}  // namespace

void DecodeRow(const RowFormat& format, const std::byte* values, float* to) {
  for (uint32_t i = 0; i < format.dim; ++i) {
    to[i] = Widened(format.weights, values + i * SizeOf(format.weights));
  }
  for (uint32_t i = 0; i < format.vector_floats(); ++i) {
    to[format.dim + i] =
        Widened(format.state, values + format.state_offset() + i * SizeOf(format.state));
  }
  std::memcpy(to + format.dim + format.vector_floats(), values + format.scalars_offset(),
              format.shape.scalars * sizeof(float));
}

void EncodeNewRow(const RowFormat& format, const float* from, std::byte* values) {
  EncodeRow(format, from, [](uint32_t) { return kToNearest; }, values);
}

void ConvertRowReference(RowPrecision from, RowPrecision to, uint32_t count,
                         const RowConversion& row) {
  for (uint32_t i = 0; i < count; ++i) {
    Store(to, Widened(from, row.from + i * SizeOf(from)), kToNearest, row.to + i * SizeOf(to));
  }
}

void UpdateEncodedRowReference(const RowUpdateParameters& parameters, const RowFormat& format,
                               const EncodedRow& row) {
  float wide[kMaxRowFloats];
  DecodeRow(format, row.values, wide);
  UpdateRowReference(parameters, {wide, row.gradient});
  EncodeRow(format, wide, [&](uint32_t i) { return ElementNoise(row.noise, i); }, row.values);
}

}  // namespace simurgh
