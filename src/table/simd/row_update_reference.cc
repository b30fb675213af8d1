#include <algorithm>
#include <cmath>

#include "table/simd/row_update.h"

namespace simurgh {
namespace {

using Rule = RowUpdateRule;

float SumOfSquares(const float* values, uint32_t dim) {
  float lanes[kSumLanes] = {};
  for (uint32_t i = 0; i < dim; ++i) lanes[i % kSumLanes] += values[i] * values[i];
  return AddLanes(lanes);
}

// A row and its gradient after clipping and decay.
struct ReferenceRow {
  ReferenceRow(const RowUpdateParameters& parameters, const RowGradient& row)
      : p(parameters), weights(row.weights), state(row.weights + parameters.dim) {
    std::copy_n(row.gradient, p.dim, gradient);
    if (p.max_gradient_norm == 0 && p.l2_decay == 0 && p.decoupled_decay == 0) return;
    float scale = 1;
    if (p.max_gradient_norm > 0) {
      const float norm = std::sqrt(SumOfSquares(row.gradient, p.dim));
      if (norm > p.max_gradient_norm) scale = p.max_gradient_norm / norm;
    }
    for (uint32_t i = 0; i < p.dim; ++i) {
      gradient[i] = scale * row.gradient[i] + p.l2_decay * weights[i];
      weights[i] = weights[i] * (1.0F - p.learning_rate * p.decoupled_decay);
    }
  }

  void Set(uint32_t i, float weight) {
    weights[i] = std::max(-p.weight_bound, std::min(p.weight_bound, weight));
  }
  float MeanSquare() const { return SumOfSquares(gradient, p.dim) / static_cast<float>(p.dim); }

  void Sgd();
  void Momentum();
  void Adagrad();
  void RowWiseAdagrad();
  void Adam();
  void RowWiseAdam();
  void Ftrl();

  const RowUpdateParameters& p;
  float* weights;
  float* state;
  float gradient[kMaxRowDim];
};

void ReferenceRow::Sgd() {
  for (uint32_t i = 0; i < p.dim; ++i) Set(i, weights[i] - p.learning_rate * gradient[i]);
}

void ReferenceRow::Momentum() {
  for (uint32_t i = 0; i < p.dim; ++i) {
    state[i] = p.momentum * state[i] + gradient[i];
    const float direction =
        p.rule == Rule::kNesterov ? gradient[i] + p.momentum * state[i] : state[i];
    Set(i, weights[i] - p.learning_rate * direction);
  }
}

void ReferenceRow::Adagrad() {
  for (uint32_t i = 0; i < p.dim; ++i) {
    const float step = p.learning_rate * gradient[i] / std::sqrt(state[i] + p.epsilon);
    state[i] = state[i] * p.accumulator_decay + gradient[i] * gradient[i];
    Set(i, weights[i] - step);
  }
}

void ReferenceRow::RowWiseAdagrad() {
  for (uint32_t i = 0; i < p.dim; ++i) {
    Set(i, weights[i] - p.learning_rate * gradient[i] / std::sqrt(state[0] + p.epsilon));
  }
  state[0] = state[0] * p.accumulator_decay + MeanSquare();
}

void ReferenceRow::Adam() {
  float* second = state + p.dim;
  float& updates = second[p.dim];
  updates = std::min(updates + 1.0F, kMaxAdamUpdates);
  const AdamScales scales = AdamScalesOf(p, updates);
  for (uint32_t i = 0; i < p.dim; ++i) {
    state[i] = p.beta1 * state[i] + (1.0F - p.beta1) * gradient[i];
    second[i] = p.beta2 * second[i] + (1.0F - p.beta2) * (gradient[i] * gradient[i]);
    const float root = std::sqrt(second[i] * scales.square) + p.epsilon;
    Set(i, weights[i] - scales.step * state[i] / root);
  }
}

void ReferenceRow::RowWiseAdam() {
  float& second = state[p.dim];
  float& updates = state[p.dim + 1];
  updates = std::min(updates + 1.0F, kMaxAdamUpdates);
  const AdamScales scales = AdamScalesOf(p, updates);
  second = p.beta2 * second + (1.0F - p.beta2) * MeanSquare();
  const float root = std::sqrt(second * scales.square) + p.epsilon;
  for (uint32_t i = 0; i < p.dim; ++i) {
    state[i] = p.beta1 * state[i] + (1.0F - p.beta1) * gradient[i];
    Set(i, weights[i] - scales.step * state[i] / root);
  }
}

void ReferenceRow::Ftrl() {
  float* squares = state + p.dim;
  float left[kMaxRowDim];
  for (uint32_t i = 0; i < p.dim; ++i) {
    const float sum = squares[i] + gradient[i] * gradient[i];
    const float sigma = (std::sqrt(sum) - std::sqrt(squares[i])) / p.learning_rate;
    squares[i] = sum;
    state[i] = state[i] + (gradient[i] - sigma * weights[i]);
    left[i] = 0.0F - (std::min(state[i] + p.l1, 0.0F) + std::max(state[i] - p.l1, 0.0F));
  }
  float share = 1;
  if (p.rule == Rule::kGroupFtrl) {
    const float norm = std::sqrt(SumOfSquares(left, p.dim));
    const float threshold = std::sqrt(static_cast<float>(p.dim)) * p.group_l1;
    share = norm > threshold ? 1.0F - threshold / norm : 0.0F;
  }
  for (uint32_t i = 0; i < p.dim; ++i) {
    Set(i, share * left[i] / ((p.ftrl_beta + std::sqrt(squares[i])) / p.learning_rate + p.l2));
  }
}

}  // namespace

void UpdateRowReference(const RowUpdateParameters& parameters, const RowGradient& row) {
  ReferenceRow reference(parameters, row);
  switch (parameters.rule) {
    case Rule::kSgd:
      return reference.Sgd();
    case Rule::kMomentum:
    case Rule::kNesterov:
      return reference.Momentum();
    case Rule::kAdagrad:
      return reference.Adagrad();
    case Rule::kRowWiseAdagrad:
      return reference.RowWiseAdagrad();
    case Rule::kAdam:
      return reference.Adam();
    case Rule::kRowWiseAdam:
      return reference.RowWiseAdam();
    case Rule::kFtrl:
    case Rule::kGroupFtrl:
      return reference.Ftrl();
  }
}

}  // namespace simurgh
