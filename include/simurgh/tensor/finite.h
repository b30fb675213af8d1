#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace simurgh {

// Whether no value is NaN or infinite. Integer arithmetic without branches, which compilers
// vectorise; they may not reorder a sum of floats.
inline bool AllFinite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;  // All ones only in NaN and infinity.
  uint32_t found = 0;
  for (const float value : values) {
    found |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  }
  return found == 0;
}

}  // namespace simurgh
