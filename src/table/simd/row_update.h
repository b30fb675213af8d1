#pragma once

#include <cstdint>
#include <span>

namespace simurgh {

enum class RowUpdateRule : uint8_t {
  kSgd,
  kMomentum,
  kNesterov,
  kAdagrad,
  kRowWiseAdagrad,
  kAdam,
  kRowWiseAdam,
  kFtrl,
  kGroupFtrl,
};

// The numbers in the formulas of sparse_optimizer.h.
struct RowUpdateParameters {
  RowUpdateRule rule = RowUpdateRule::kSgd;
  uint32_t dim = 0;
  float learning_rate = 0;
  float weight_bound = 0;
  float max_gradient_norm = 0;  // 0: any.
  float l2_decay = 0;           // Adds l2_decay * w to the gradient.
  float decoupled_decay = 0;    // Takes learning_rate * decoupled_decay * w off the weight.
  float momentum = 0;
  float epsilon = 0;
  float accumulator_decay = 1;
  float beta1 = 0;
  float beta2 = 0;
  float l1 = 0;
  float l2 = 0;
  float group_l1 = 0;
  float ftrl_beta = 0;
};

// How much state a rule keeps behind a row's weights: so many times dim, and then single floats.
struct RowStateShape {
  uint32_t vectors;
  uint32_t scalars;

  uint32_t floats(uint32_t dim) const { return vectors * dim + scalars; }
};

constexpr RowStateShape StateShapeOf(RowUpdateRule rule) {
  switch (rule) {
    case RowUpdateRule::kSgd:
      return {0, 0};
    case RowUpdateRule::kMomentum:
    case RowUpdateRule::kNesterov:
    case RowUpdateRule::kAdagrad:
      return {1, 0};
    case RowUpdateRule::kRowWiseAdagrad:
      return {0, 1};
    case RowUpdateRule::kAdam:
      return {2, 1};
    case RowUpdateRule::kRowWiseAdam:
      return {1, 2};
    case RowUpdateRule::kFtrl:
    case RowUpdateRule::kGroupFtrl:
      break;
  }
  return {2, 0};
}

inline constexpr uint32_t kMaxRowDim = 1024;

// A row's weights with its optimizer state right behind them, and the gradient for it: (D). Any
// alignment; they do not overlap.
struct RowGradient {
  float* weights;
  const float* gradient;
};

// Applies the rule (see sparse_optimizer.h) to each row in order, with the widest vectors of the
// processor: one dispatch for all rows. Requires dim <= kMaxRowDim.
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

// How Adam corrects the bias of a row's n-th update, n from 1.
struct AdamScales {
  float step;    // learning_rate / (1 - beta1^n)
  float square;  // 1 / (1 - beta2^n)
};
AdamScales AdamScalesOf(const RowUpdateParameters& parameters, float updates);

// Updates are counted in a float up to here; the correction has long been 1 by then.
inline constexpr float kMaxAdamUpdates = 16'777'216.0F;  // 2^24

}  // namespace simurgh
