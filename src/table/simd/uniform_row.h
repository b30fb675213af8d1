#pragma once

#include <cstdint>
#include <span>

namespace simurgh {

// Numbers min(low + u * width, highest) with a 24-bit u in [0, 1).
struct UniformRange {
  float low;
  float width;
  float highest;  // Rounding of the sum could reach the excluded upper end.
};

struct UniformRow {
  uint64_t seed;
  float* row;
};

// Fills `dim` numbers of each row with draws of Random(seed), two numbers per draw: its upper 24
// bits and the next 24. One dispatch for all. Bit-identical on every target.
void FillUniform(const UniformRange& range, uint32_t dim, std::span<const UniformRow> rows);

}  // namespace simurgh
