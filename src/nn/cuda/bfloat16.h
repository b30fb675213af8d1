#pragma once

#include <cstdint>

#include "nn/host_device.h"
#include "simurgh/tensor/half.h"

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

}  // namespace simurgh::cuda
