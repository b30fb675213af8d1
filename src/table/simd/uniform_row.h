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
// bits and the next 24. One dispatch for all. Bit-identical to FillUniformReference() on every
// target.
void FillUniform(const UniformRange& range, uint32_t dim, std::span<const UniformRow> rows);

// Defines the result: one row, number by number.
void FillUniformReference(uint64_t row_seed, const UniformRange& range, std::span<float> row);

}  // namespace simurgh
