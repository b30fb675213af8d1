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

// Fills a row with draws of Random(row_seed), two numbers a draw: the upper 24 bits of a draw and
// the 24 after them.
//
// Every target gives the bits of FillUniformReference.
void FillUniform(uint64_t row_seed, const UniformRange& range, std::span<float> row);

// The same, number by number.
void FillUniformReference(uint64_t row_seed, const UniformRange& range, std::span<float> row);

}  // namespace simurgh
