#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "feature/simd/vector_rows.h"

namespace simurgh {
namespace {

uint32_t SizeBits(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffU; }

bool IsFinite(float value) { return SizeBits(value) < kNotFiniteBits; }

// Between 0 and 1, in steps of 2^-24.
float Chance(const ByteRounding& rounding, uint32_t i) {
  if (!rounding.by_chance) return kNearestNoise;
  return static_cast<float>(ElementNoise(rounding.noise, i) >> 8) * 0x1p-24F;
}

}  // namespace

ByteScale ScaleOf(uint32_t largest_bits) {
  if (largest_bits >= kNotFiniteBits) return {0, std::numeric_limits<float>::quiet_NaN()};
  const auto largest = std::bit_cast<float>(largest_bits);
  if (largest < kSmallestLargest) return {0, 0};
  return {kLargestByte / largest, largest / kLargestByte};
}

void NarrowRowReference(Half format, float factor, std::span<const float> from, uint16_t* to) {
  for (size_t i = 0; i < from.size(); ++i) {
    const float value = factor * from[i];
    to[i] = IsFinite(value) ? ToHalf(format, value, kToNearest) : kHalfNan;
  }
}

void WidenRowReference(Half format, float factor, const uint16_t* from, std::span<float> to) {
  const uint32_t not_finite = format == Half::kBf16 ? kMaxBf16Bits : kMaxF16Bits;
  for (size_t i = 0; i < to.size(); ++i) {
    const bool finite = (from[i] & 0x7fffU) <= not_finite;
    to[i] = finite ? factor * FromHalf(format, from[i]) : std::numeric_limits<float>::quiet_NaN();
  }
}

void NarrowToBytesReference(std::span<const uint32_t> dims, float factor, const float* from,
                            const ByteRounding& rounding, int8_t* to, float* scales) {
  uint32_t first = 0;
  for (size_t v = 0; v < dims.size(); first += dims[v++]) {
    uint32_t largest = 0;
    for (uint32_t d = 0; d < dims[v]; ++d) {
      largest = std::max(largest, SizeBits(factor * from[first + d]));
    }
    const ByteScale scale = ScaleOf(largest);
    scales[v] = scale.scale;
    for (uint32_t i = first; i < first + dims[v]; ++i) {
      if (scale.to_bytes == 0) {
        to[i] = 0;
        continue;
      }
      const float value = factor * from[i] * scale.to_bytes;
      const float size = std::min(std::abs(value), kLargestByte);
      const float whole = std::floor(size);
      const float byte = whole + (Chance(rounding, i) < size - whole ? 1.0F : 0.0F);
      to[i] = static_cast<int8_t>(std::copysign(byte, value));
    }
  }
}

void WidenBytesReference(std::span<const uint32_t> dims, float factor, const int8_t* from,
                         const float* scales, float* to) {
  for (size_t v = 0; v < dims.size(); ++v) {
    const float scale = factor * scales[v];
    for (uint32_t d = 0; d < dims[v]; ++d) *to++ = scale * static_cast<float>(*from++);
  }
}

}  // namespace simurgh
