#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "tensor/half.h"

// VectorCodec number by number. Defines the results of the SIMD code (simd/vector_rows.h) and
// of device code to the bit. constexpr, so that device kernels can call it.
namespace simurgh {

inline constexpr uint32_t kNotFiniteBits = 0x7f800000;  // Smallest SizeBits of infinity and NaN.
inline constexpr uint16_t kHalfNan = 0x7fff;            // The NaN of both formats.
inline constexpr float kLargestByte = 127.0F;
inline constexpr float kSmallestLargest = 0x1p-100F;  // Vectors below it become zeros.
// Noise that rounds to nearest, ties away from zero: the largest float below 0.5.
inline constexpr float kNearestNoise = 0.5F - 0x1p-25F;

// Returns the bits of the absolute value, which have its order.
constexpr uint32_t SizeBits(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffU; }

// Rounds to nearest; larger numbers become the largest finite one. NaN if `value` is not finite.
constexpr uint16_t NarrowNumber(Half format, float value) {
  return SizeBits(value) < kNotFiniteBits ? ToHalf(format, value, kToNearest) : kHalfNan;
}

// factor * value of the half; NaN if the half is not finite.
constexpr float WidenNumber(Half format, float factor, uint16_t half) {
  const uint32_t largest = format == Half::kBf16 ? kMaxBf16Bits : kMaxF16Bits;
  const bool finite = (half & 0x7fffU) <= largest;
  return finite ? factor * FromHalf(format, half) : std::numeric_limits<float>::quiet_NaN();
}

// Factor of a vector's numbers to int8, and its inverse.
struct ByteScale {
  float to_bytes = 0;  // 0: all numbers become 0.
  float scale = 0;
};

// largest_bits: SizeBits of the largest absolute number.
constexpr ByteScale ScaleOf(uint32_t largest_bits) {
  if (largest_bits >= kNotFiniteBits) return {0, std::numeric_limits<float>::quiet_NaN()};
  const auto largest = std::bit_cast<float>(largest_bits);
  if (largest < kSmallestLargest) return {0, 0};
  return {kLargestByte / largest, largest / kLargestByte};
}

struct ByteRounding {
  bool by_chance = false;
  uint64_t noise = 0;  // RoundingNoise of the row, if by_chance.
};

// Element i of a row is rounded up if its fraction exceeds this: 0 to 1, in steps of 2^-24.
constexpr float ChanceOf(const ByteRounding& rounding, uint32_t i) {
  if (!rounding.by_chance) return kNearestNoise;
  return static_cast<float>(ElementNoise(rounding.noise, i) >> 8) * 0x1p-24F;
}

// value: finite, multiplied by to_bytes.
constexpr int8_t NarrowToByte(float value, float chance) {
  const float size = std::min(std::bit_cast<float>(SizeBits(value)), kLargestByte);
  const auto whole = static_cast<int32_t>(size);
  const int32_t byte = whole + (chance < size - static_cast<float>(whole) ? 1 : 0);
  return static_cast<int8_t>(value < 0 ? -byte : byte);
}

}  // namespace simurgh
