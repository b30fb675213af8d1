#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/tensor/half.h"

namespace simurgh {

// Conversions of one row of vectors. Every target gives the bits of the function's Reference.

// `factor * from` to the nearest, beyond the largest finite number to it; NaN where that is not
// finite.
void NarrowRow(Half format, float factor, std::span<const float> from, uint16_t* to);
void NarrowRowReference(Half format, float factor, std::span<const float> from, uint16_t* to);

// factor * what the halves stand for; NaN where that is not finite.
void WidenRow(Half format, float factor, const uint16_t* from, std::span<float> to);
void WidenRowReference(Half format, float factor, const uint16_t* from, std::span<float> to);

// How a number's share of the way to the next int8 is judged.
struct ByteRounding {
  bool by_chance = false;
  uint64_t noise = 0;  // By chance: RoundingNoise of the row.
};

// Vectors of these dims, one behind the other, as int8 and a scale each; see VectorCode.
void NarrowToBytes(std::span<const uint32_t> dims, float factor, const float* from,
                   const ByteRounding& rounding, int8_t* to, float* scales);
void NarrowToBytesReference(std::span<const uint32_t> dims, float factor, const float* from,
                            const ByteRounding& rounding, int8_t* to, float* scales);

// to = factor * scale * from.
void WidenBytes(std::span<const uint32_t> dims, float factor, const int8_t* from,
                const float* scales, float* to);
void WidenBytesReference(std::span<const uint32_t> dims, float factor, const int8_t* from,
                         const float* scales, float* to);

// Of a vector, what its numbers are multiplied by to be int8, and the scale that undoes it.
struct ByteScale {
  float to_bytes = 0;
  float scale = 0;
};

inline constexpr uint32_t kNotFiniteBits = 0x7f800000;  // From here on, of an absolute number.
inline constexpr uint16_t kHalfNan = 0x7fff;            // In both formats.
inline constexpr float kLargestByte = 127.0F;
inline constexpr float kSmallestLargest = 0x1p-100F;  // Vectors below it become zeros.
// The noise that rounds to the nearest, in the middle away from zero: the largest below a half.
inline constexpr float kNearestNoise = 0.5F - 0x1p-25F;

// largest_bits: of the largest absolute number.
ByteScale ScaleOf(uint32_t largest_bits);

}  // namespace simurgh
