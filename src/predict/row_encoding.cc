#include "predict/row_encoding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "embedding/vector_codec.h"
#include "embedding/vector_number.h"
#include "table/encoded_matrix.h"
#include "tensor/half.h"

namespace simurgh {
namespace {

// Returns the next bf16 at or above a positive finite number.
uint16_t UpToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0xffffU) >> 16);
}

void EncodeInt8(std::span<const float> row, std::byte* to) {
  float largest = 0;
  bool is_finite = true;
  for (const float number : row) {
    largest = std::max(largest, std::abs(number));
    is_finite = is_finite && std::isfinite(number);
  }
  uint16_t scale = 0;
  if (!is_finite) {
    scale = kHalfNan;
  } else if (largest >= kSmallestLargest) {
    scale = UpToBf16(largest / kLargestByte);
  }
  const float factor = is_finite && scale != 0 ? 1 / FromBf16(scale) : 0;
  for (const float number : row) {
    const float byte = std::clamp(number * factor, -kLargestByte, kLargestByte);
    *to++ = static_cast<std::byte>(is_finite ? static_cast<int8_t>(std::lrintf(byte)) : 1);
  }
  std::memcpy(to, &scale, sizeof(scale));
}

}  // namespace

RowEncoding::RowEncoding(const TableConfig& table, VectorPrecision precision) : dim_(table.dim) {
  switch (table.precision) {
    case RowPrecision::kF32:
      kept_ = precision == VectorPrecision::kBf16 ? Kept::kBf16 : Kept::kF32;
      break;
    case RowPrecision::kBf16:
      kept_ = Kept::kBf16;
      break;
    case RowPrecision::kF16:
      kept_ = Kept::kF16;
      break;
  }
  if (precision == VectorPrecision::kInt8) kept_ = Kept::kInt8;
  const size_t scale = kept_ == Kept::kInt8 ? sizeof(uint16_t) : 0;
  row_bytes_ = dim_ * (kept_ == Kept::kF32    ? sizeof(float)
                       : kept_ == Kept::kInt8 ? 1
                                              : sizeof(uint16_t)) +
               scale;
}

void RowEncoding::EncodeFrom(const RowEncoding& other, const std::byte* from,
                             std::byte* row) const {
  if (kept_ == other.kept_) {
    std::memcpy(row, from, row_bytes_);
    return;
  }
  thread_local std::vector<float> numbers;
  numbers.resize(dim_);
  other.Widen(from, numbers);
  switch (kept_) {
    case Kept::kInt8:
      return EncodeInt8(numbers, row);
    case Kept::kF32:
      std::memcpy(row, numbers.data(), row_bytes_);
      return;
    case Kept::kBf16:
    case Kept::kF16:
      break;
  }
  for (const float number : numbers) {
    const uint16_t half = NarrowNumber(kept_ == Kept::kBf16 ? Half::kBf16 : Half::kF16, number);
    std::memcpy(row, &half, sizeof(half));
    row += sizeof(half);
  }
}

void RowEncoding::Widen(const std::byte* row, std::span<float> to) const {
  switch (kept_) {
    case Kept::kF32:
      std::memcpy(to.data(), row, row_bytes_);
      return;
    case Kept::kBf16:
      return WidenRow(RowPrecision::kBf16, row, to);
    case Kept::kF16:
      return WidenRow(RowPrecision::kF16, row, to);
    case Kept::kInt8:
      break;
  }
  uint16_t half;
  std::memcpy(&half, row + dim_, sizeof(half));
  ScaleBytes({reinterpret_cast<const int8_t*>(row), dim_}, FromBf16(half), to);
}

std::vector<RowEncoding> EncodingsOf(const std::vector<TableConfig>& tables,
                                     VectorPrecision precision) {
  std::vector<RowEncoding> encodings;
  for (const TableConfig& table : tables) encodings.emplace_back(table, precision);
  return encodings;
}

}  // namespace simurgh
