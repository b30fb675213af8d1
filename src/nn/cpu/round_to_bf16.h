#pragma once

#include <cstdint>
#include <span>

namespace simurgh::cpu {

// Rounds to the nearest bf16, ties to even. NaN stays NaN; overflow becomes infinity.
// to: from.size() values.
void RoundToBf16(std::span<const float> from, uint16_t* to);

}  // namespace simurgh::cpu
