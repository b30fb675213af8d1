#include "embedding/vector_codec.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "embedding/simd/vector_rows.h"

namespace simurgh {
namespace {

// Requires a format of 16 bits.
Half HalfOf(VectorPrecision precision) {
  return precision == VectorPrecision::kBf16 ? Half::kBf16 : Half::kF16;
}

void Scale(float factor, std::span<float> values) {
  for (float& value : values) value *= factor;
}

}  // namespace

VectorPrecision VectorPrecisionOf(RowPrecision precision) {
  switch (precision) {
    case RowPrecision::kF32:
      return VectorPrecision::kF32;
    case RowPrecision::kBf16:
      return VectorPrecision::kBf16;
    case RowPrecision::kF16:
      break;
  }
  return VectorPrecision::kF16;
}

void ScaleBytes(std::span<const int8_t> from, float scale, std::span<float> to) {
  const auto dim = static_cast<uint32_t>(from.size());
  WidenBytes(std::span(&dim, 1), /*factor=*/1, from.data(), &scale, to.data());
}

VectorCodec::VectorCodec(VectorPrecision precision, std::vector<uint32_t> dims)
    : precision_(precision),
      dims_(std::move(dims)),
      columns_(std::accumulate(dims_.begin(), dims_.end(), size_t{0})) {
  SIMURGH_CHECK(std::ranges::find(dims_, 0U) == dims_.end());
  switch (precision_) {
    case VectorPrecision::kF32:
      row_bytes_ = columns_ * sizeof(float);
      break;
    case VectorPrecision::kBf16:
    case VectorPrecision::kF16:
      row_bytes_ = columns_ * sizeof(uint16_t);
      break;
    case VectorPrecision::kInt8:
      row_bytes_ = scales_offset() + dims_.size() * sizeof(float);
      break;
  }
}

void VectorCodec::Encode(MatrixView<const float> rows, float factor,
                         const std::optional<RoundingKey>& key,
                         std::span<std::byte> encoded) const {
  SIMURGH_CHECK_EQ(rows.columns(), columns_);
  SIMURGH_CHECK_EQ(encoded.size(), rows.rows() * row_bytes_);
  if (columns_ == 0) return;
  std::byte* to = encoded.data();
  for (size_t r = 0; r < rows.rows(); ++r, to += row_bytes_) {
    const std::span<const float> row = rows.row(r);
    if (precision_ == VectorPrecision::kF32) {
      std::memcpy(to, row.data(), row_bytes_);
      if (factor != 1) Scale(factor, {reinterpret_cast<float*>(to), columns_});
    } else if (precision_ == VectorPrecision::kInt8) {
      ByteRounding rounding;
      if (key) rounding = {true, RoundingNoise(key->seed, key->first_row + r, key->step)};
      std::memset(to + columns_, 0, scales_offset() - columns_);
      NarrowToBytes(dims_, factor, row.data(), rounding, reinterpret_cast<int8_t*>(to),
                    reinterpret_cast<float*>(to + scales_offset()));
    } else {
      NarrowRow(HalfOf(precision_), factor, row, reinterpret_cast<uint16_t*>(to));
    }
  }
}

void VectorCodec::Decode(std::span<const std::byte> encoded, float factor,
                         MatrixView<float> rows) const {
  SIMURGH_CHECK_EQ(rows.columns(), columns_);
  SIMURGH_CHECK_EQ(encoded.size(), rows.rows() * row_bytes_);
  if (columns_ == 0) return;
  const std::byte* from = encoded.data();
  for (size_t r = 0; r < rows.rows(); ++r, from += row_bytes_) {
    const std::span<float> row = rows.row(r);
    if (precision_ == VectorPrecision::kF32) {
      std::memcpy(row.data(), from, row_bytes_);
      if (factor != 1) Scale(factor, row);
    } else if (precision_ == VectorPrecision::kInt8) {
      WidenBytes(dims_, factor, reinterpret_cast<const int8_t*>(from),
                 reinterpret_cast<const float*>(from + scales_offset()), row.data());
    } else {
      WidenRow(HalfOf(precision_), factor, reinterpret_cast<const uint16_t*>(from), row);
    }
  }
}

}  // namespace simurgh
