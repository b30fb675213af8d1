#pragma once

#include <bit>
#include <cstdint>

#include "nn/host_device.h"
#include "tensor/half.h"

namespace simurgh::cuda {

// The upper half of an IEEE 754 single: 8 bits of exponent, 7 of mantissa.
struct Bfloat16 {
  uint16_t bits;
};

SIMURGH_HOST_DEVICE inline float ToFloat(float value) { return value; }

SIMURGH_HOST_DEVICE inline float ToFloat(Bfloat16 value) { return FromBf16(value.bits); }

SIMURGH_HOST_DEVICE inline void Assign(Bfloat16& target, float value) {
  target.bits = NearestBf16(value);
}

SIMURGH_HOST_DEVICE inline void Assign(float& target, float value) { target = value; }

// An IEEE 754 half: 5 bits of exponent, 10 of mantissa; positive values from 2^-24 to 65,504.
struct Float16 {
  uint16_t bits;
};

SIMURGH_HOST_DEVICE inline float ToFloat(Float16 value) {
  const uint32_t sign = uint32_t{value.bits} << 16 & 0x80000000U;
  const uint32_t magnitude = value.bits & 0x7fffU;
  uint32_t bits = (magnitude << 13) + (112U << 23);
  if (magnitude >= 0x7c00U) bits += 112U << 23;  // NaN and infinity.
  // Subnormal: multiples of 2^-24.
  if (magnitude < 0x400U) bits = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  return std::bit_cast<float>(bits | sign);
}

// Rounds to nearest, ties to even. NaN stays NaN; overflow becomes infinity, which lowers the loss
// scale.
SIMURGH_HOST_DEVICE inline void Assign(Float16& target, float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000U;
  bits &= 0x7fffffffU;
  uint32_t half;
  if (bits > 0x7f800000U) {
    half = 0x7e00U;
  } else if (bits >= 0x477ff000U) {  // 65,520, halfway from 65,504 to 2^16.
    half = 0x7c00U;
  } else if (bits < 0x38800000U) {  // 2^-14
    // The last bit of the sum is 2^-24, so the addition rounds.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + 0.5F) - 0x3f000000U;
  } else {
    half = (bits + 0xfffU + (bits >> 13 & 1U) - (112U << 23)) >> 13;
  }
  target.bits = static_cast<uint16_t>(sign | half);
}

}  // namespace simurgh::cuda
