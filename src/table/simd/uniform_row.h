#pragma once

#include <cstdint>
#include <span>

namespace simurgh {

// Numbers low + u * width, at most `highest`, with u of 24 bits in [0, 1).
struct UniformRange {
  float low;
  float width;
  float highest;  // Rounding in the sum could reach the upper end.
};

// A row to be filled, and the seed of its draws.
struct UniformRow {
  uint64_t seed;
  float* row;
};

// Fills `dim` numbers of each row with draws of Random(seed), two numbers a draw: the upper 24 bits
// of a draw and the 24 after them. One dispatch for all.
//
// Every target gives the bits of FillUniformReference.
void FillUniform(const UniformRange& range, uint32_t dim, std::span<const UniformRow> rows);

// The same for one row, number by number.
void FillUniformReference(uint64_t row_seed, const UniformRange& range, std::span<float> row);

}  // namespace simurgh
