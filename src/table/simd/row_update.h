#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "table/update_rules.h"

namespace simurgh {

inline constexpr uint32_t kMaxRowDim = 1024;
// Largest number of floats of a row: Adam's.
inline constexpr uint32_t kMaxRowFloats = 3 * kMaxRowDim + 2;

// A row's weights followed by its optimizer state, and its gradient: (D). Any alignment; they must
// not overlap.
struct RowGradient {
  float* weights;
  const float* gradient;
};

// Rows with numbers that are not finite; bit i stands for the i-th row of the update.
struct NotFinite {
  uint64_t gradients = 0;  // The gradient had a number that is not finite; the row is unchanged.
  uint64_t rows = 0;       // The update gave a number that is not finite, in weights or state.
};

inline constexpr size_t kMaxUpdatedRows = 64;

// Applies the rule (see update_rules.h) to each row in order, with one dispatch for all rows.
// Requires dim <= kMaxRowDim and at most kMaxUpdatedRows rows.
//
// Bit-identical on every target: operations are exactly rounded, nothing is fused, and sums over a
// row have a fixed order.
NotFinite UpdateRows(const RowUpdateParameters& parameters, std::span<const RowGradient> rows);

// Order of a sum over a row: element i is added to lane i mod 16, then lanes are added pairwise (i
// and i + 8, then i + 4, i + 2, i + 1). Any vector width up to 16 can implement it.
inline constexpr uint32_t kSumLanes = 16;

inline float AddLanes(float* lanes) {
  for (uint32_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (uint32_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace simurgh
