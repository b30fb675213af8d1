#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace simurgh {

// Returns whether no value is NaN or infinite. Integer arithmetic without branches, which compilers
// vectorise; they may not reorder a sum of floats.
inline bool AllFinite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;  // All ones only in NaN and infinity.
  uint32_t found = 0;
  for (const float value : values) {
    found |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  }
  return found == 0;
}

// Bits of 2^48, about 2.8e14: a gradient of this magnitude is of no use. The squares of smaller
// ones, and of their sums over ranks and samples, are finite, which optimizers rely on: with an
// infinite second moment, adam would never change the weight again.
inline constexpr uint32_t kUselessGradient = 0x57800000;

// Returns whether no gradient is NaN or has a magnitude of 2^48 or more.
inline bool AllUsable(std::span<const float> gradients) {
  constexpr uint32_t kMagnitude = 0x7fffffff;
  uint32_t found = 0;
  for (const float gradient : gradients) {
    found |= (std::bit_cast<uint32_t>(gradient) & kMagnitude) >= kUselessGradient ? 1U : 0U;
  }
  return found == 0;
}

}  // namespace simurgh
