#pragma once

#include <cstdint>
#include <span>

namespace simurgh::cpu {

// The nearest numbers in bf16, ties to even; NaN stays NaN, what is too large becomes infinity.
// to: as many numbers. Cost: that of the memory.
void RoundToBf16(std::span<const float> from, uint16_t* to);

}  // namespace simurgh::cpu
