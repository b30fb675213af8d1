#include <algorithm>
#include <cmath>

#include "table/simd/row_update.h"

namespace simurgh {
namespace {

float Clamped(float weight, float bound) { return std::max(-bound, std::min(bound, weight)); }

float MeanSquare(const float* gradient, uint32_t dim) {
  float lanes[kSumLanes] = {};
  for (uint32_t i = 0; i < dim; ++i) lanes[i % kSumLanes] += gradient[i] * gradient[i];
  return AddLanes(lanes) / static_cast<float>(dim);
}

}  // namespace

void UpdateRowReference(const RowUpdateParameters& parameters, const RowGradient& row) {
  const auto& [rule, dim, learning_rate, epsilon, decay, bound] = parameters;
  float* state = row.weights + dim;
  for (uint32_t i = 0; i < dim; ++i) {
    const float gradient = row.gradient[i];
    float step = learning_rate * gradient;
    if (rule == RowUpdateRule::kAdagrad) {
      step /= std::sqrt(state[i] + epsilon);
      state[i] = state[i] * decay + gradient * gradient;
    } else if (rule == RowUpdateRule::kRowWiseAdagrad) {
      step /= std::sqrt(state[0] + epsilon);
    }
    row.weights[i] = Clamped(row.weights[i] - step, bound);
  }
  if (rule == RowUpdateRule::kRowWiseAdagrad) {
    state[0] = state[0] * decay + MeanSquare(row.gradient, dim);
  }
}

}  // namespace simurgh
