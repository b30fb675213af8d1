#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace simurgh {

// Whether no value is NaN or infinite. Integers and no branch: compilers make vectors of it, which
// a sum of floats, whose order counts, is not.
inline bool AllFinite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;  // All ones in NaN and infinity, in nothing else.
  uint32_t found = 0;
  for (const float value : values) {
    found |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  }
  return found == 0;
}

}  // namespace simurgh
