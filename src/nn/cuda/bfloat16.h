#pragma once

#include <cstdint>
#include <cstring>

#include "nn/cuda/host_device.h"

namespace simurgh::cuda {

// The upper half of an IEEE 754 single: 8 bits of exponent, 7 of mantissa.
struct Bfloat16 {
  uint16_t bits;
};

SIMURGH_HOST_DEVICE inline float ToFloat(float value) { return value; }

SIMURGH_HOST_DEVICE inline float ToFloat(Bfloat16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

// Rounds to nearest, ties to even. NaN stays NaN.
SIMURGH_HOST_DEVICE inline void Assign(Bfloat16& target, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  // Rounding could turn a NaN into infinity; the quiet bit prevents it.
  target.bits = static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40U : rounded >> 16);
}

SIMURGH_HOST_DEVICE inline void Assign(float& target, float value) { target = value; }

}  // namespace simurgh::cuda
