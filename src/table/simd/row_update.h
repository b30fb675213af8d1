#pragma once

#include <cstdint>
#include <span>

namespace simurgh {

enum class RowUpdateRule : uint8_t { kSgd, kAdagrad, kRowWiseAdagrad };

struct RowUpdateParameters {
  RowUpdateRule rule = RowUpdateRule::kSgd;
  uint32_t dim = 0;
  float learning_rate = 0;
  float epsilon = 0;
  float decay = 1;
  float weight_bound = 0;
};

// A row's weights with its optimizer state right behind them, and the gradient for it: (D). Any
// alignment; they do not overlap.
struct RowGradient {
  float* weights;
  const float* gradient;
};

// Applies the rule (see sparse_optimizer.h) to each row in order, with the widest vectors of the
// processor: one dispatch for all rows.
//
// Every target gives the bits of UpdateRowReference: addition, multiplication, division and square
// root are exactly rounded everywhere, nothing is fused, and sums over a row have a fixed order.
void UpdateRows(const RowUpdateParameters& parameters, std::span<const RowGradient> rows);

// One row, element by element: the definition of the result.
void UpdateRowReference(const RowUpdateParameters& parameters, const RowGradient& row);

// The order of a sum over a row: element i goes to lane i mod 16, lanes are added in halves (lane i
// and lane i + 8, then i + 4, i + 2, i + 1). Any vector width up to 16 can follow it.
inline constexpr uint32_t kSumLanes = 16;

inline float AddLanes(float* lanes) {
  for (uint32_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (uint32_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace simurgh
