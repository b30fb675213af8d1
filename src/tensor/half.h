#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/hash.h"

namespace simurgh {

// The two 16-bit formats.
enum class Half { kBf16, kF16 };

// Scalar conversions. They define the vector conversions in half-inl.h. constexpr
// lets CUDA kernels call them.

inline constexpr uint32_t kMaxBf16Bits = 0x7f7f;
inline constexpr uint32_t kMaxF16Bits = 0x7bff;

constexpr float FromBf16(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); }

constexpr float FromF16(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffU;
  const uint32_t sign = (half & 0x8000U) << 16;
  float value;
  if (magnitude < 0x400) {  // Subnormal: multiples of 2^-24.
    value = std::bit_cast<float>((magnitude << 13) + 0x38800000U) - 0x1p-14F;
  } else if (magnitude > kMaxF16Bits) {  // Infinity and NaN.
    value = std::bit_cast<float>((magnitude << 13) + (224U << 23));
  } else {
    value = std::bit_cast<float>((magnitude << 13) + (112U << 23));
  }
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

// Rounds a finite number: adds `noise` below the last kept bit and truncates. 16 random bits make
// it stochastic rounding; 0x8000 rounds to nearest, ties away from zero.
constexpr uint16_t ToBf16(float value, uint32_t noise) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = ((bits & 0x7fffffffU) + (noise & 0xffffU)) >> 16;
  return static_cast<uint16_t>(std::min(magnitude, kMaxBf16Bits) | (bits >> 31) << 15);
}

constexpr uint16_t ToF16(float value, uint32_t noise) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const float size = std::bit_cast<float>(bits & 0x7fffffffU);
  uint32_t magnitude;
  if (size < 0x1p-14F) {
    // 13 bits, so that the sum of a whole number and them is exact.
    const float share = static_cast<float>((noise & 0xffffU) >> 3) * 0x1p-13F;
    magnitude = static_cast<uint32_t>(size * 0x1p24F + share);
  } else {
    magnitude = ((std::bit_cast<uint32_t>(size) + ((noise & 0xffffU) >> 3)) >> 13) - (112U << 10);
  }
  return static_cast<uint16_t>(std::min(magnitude, kMaxF16Bits) | (bits >> 31) << 15);
}

// Rounds to nearest, ties to even. NaN stays NaN; overflow becomes infinity.
constexpr uint16_t NearestBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  // Rounding could turn a NaN into infinity; the quiet bit prevents it.
  return static_cast<uint16_t>(is_nan ? bits >> 16 | 0x40U
                                      : (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

constexpr float FromHalf(Half format, uint16_t half) {
  return format == Half::kBf16 ? FromBf16(half) : FromF16(half);
}

constexpr uint16_t ToHalf(Half format, float value, uint32_t noise) {
  return format == Half::kBf16 ? ToBf16(value, noise) : ToF16(value, noise);
}

// The noise that rounds to nearest.
inline constexpr uint32_t kToNearest = 0x8000;

// Seed of the stochastic rounding of one row at one step; see ElementNoise.
constexpr uint64_t RoundingNoise(uint64_t seed, uint64_t id, uint64_t step) {
  return Mix64(seed ^ Mix64(id ^ Mix64(step)));
}

// 32 bits for element i of a row. Source: the mixing function is "lowbias32" of C. Wellons' search
// for integer hashes, with the second half of the seed between its rounds.
constexpr uint32_t ElementNoise(uint64_t noise, uint32_t i) {
  uint32_t x = i * 0x9e3779b9U + static_cast<uint32_t>(noise);
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x ^= static_cast<uint32_t>(noise >> 32);
  x *= 0x846ca68bU;
  return x ^ x >> 16;
}

}  // namespace simurgh
