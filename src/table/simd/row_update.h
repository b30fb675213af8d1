#pragma once

#include <array>
#include <cstddef>
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

// Parameters of the formulas in sparse_optimizer.h.
struct RowUpdateParameters {
  RowUpdateRule rule = RowUpdateRule::kSgd;
  uint32_t dim = 0;
  float learning_rate = 0;
  float weight_bound = 0;
  float max_gradient_norm = 0;  // 0: no limit.
  float l2_decay = 0;           // Adds l2_decay * w to the gradient.
  float decoupled_decay = 0;    // Subtracts learning_rate * decoupled_decay * w from the weight.
  float momentum = 0;
  float epsilon = 0;
  float accumulator_decay = 1;
  float beta1 = 0;
  float beta2 = 0;
  float l1 = 0;
  float l2 = 0;
  float group_l1 = 0;
  float ftrl_beta = 0;
  float initial_accumulator = 0;
  bool keeps_old_row = false;  // A row that would not be finite keeps its numbers.
};

// State of a rule per row: `vectors` times dim floats, then `scalars` floats.
struct RowStateShape {
  uint32_t vectors;
  uint32_t scalars;

  uint32_t floats(uint32_t dim) const { return vectors * dim + scalars; }
};

constexpr RowStateShape StateShapeOf(RowUpdateRule rule) {
  // SGD, momentum, Nesterov; Adagrad, row-wise; Adam, row-wise; FTRL, group FTRL.
  constexpr std::array<RowStateShape, 9> kShapes = {
      {{0, 0}, {1, 0}, {1, 0}, {1, 0}, {0, 1}, {2, 1}, {1, 2}, {2, 0}, {2, 0}}};
  return kShapes.at(static_cast<size_t>(rule));
}

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

// Applies the rule (see sparse_optimizer.h) to each row in order, with one dispatch for all rows.
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

// Adam's bias correction of a row's n-th update, n from 1.
struct AdamScales {
  float step;    // learning_rate / (1 - beta1^n)
  float square;  // 1 / (1 - beta2^n)
};
AdamScales AdamScalesOf(const RowUpdateParameters& parameters, float updates);

// Largest count that a float holds exactly; the correction is 1 long before.
inline constexpr float kMaxAdamUpdates = 16'777'216.0F;  // 2^24

}  // namespace simurgh
