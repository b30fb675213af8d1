#include "tests/unit/table/row_references.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/random.h"
#include "tensor/half.h"

namespace simurgh {
namespace {

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
    if (p.optimizer.max_gradient_norm == 0 && p.optimizer.weight_decay == 0 &&
        p.optimizer.decoupled_weight_decay == 0)
      return;
    float scale = 1;
    if (p.optimizer.max_gradient_norm > 0) {
      const float norm = std::sqrt(SumOfSquares(row.gradient, p.dim));
      if (norm > p.optimizer.max_gradient_norm) scale = p.optimizer.max_gradient_norm / norm;
    }
    for (uint32_t i = 0; i < p.dim; ++i) {
      gradient[i] = scale * row.gradient[i] + p.optimizer.weight_decay * weights[i];
      if (IsFtrl()) continue;
      weights[i] =
          weights[i] * (1.0F - p.optimizer.learning_rate * p.optimizer.decoupled_weight_decay);
    }
  }

  void Set(uint32_t i, float weight) {
    weights[i] = std::max(-p.weight_bound, std::min(p.weight_bound, weight));
  }
  bool IsFtrl() const {
    return p.rule == PlaceOf<rules::Ftrl>() || p.rule == PlaceOf<rules::GroupFtrl>();
  }
  float MeanSquare() const { return SumOfSquares(gradient, p.dim) / static_cast<float>(p.dim); }

  float Strength(float sum) const {
    return (p.optimizer.beta + std::sqrt(sum)) / p.optimizer.learning_rate + p.optimizer.l2;
  }

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
  for (uint32_t i = 0; i < p.dim; ++i) Set(i, weights[i] - p.optimizer.learning_rate * gradient[i]);
}

void ReferenceRow::Momentum() {
  for (uint32_t i = 0; i < p.dim; ++i) {
    state[i] = p.optimizer.momentum * state[i] + gradient[i];
    const float direction = p.rule == PlaceOf<rules::Nesterov>()
                                ? gradient[i] + p.optimizer.momentum * state[i]
                                : state[i];
    Set(i, weights[i] - p.optimizer.learning_rate * direction);
  }
}

void ReferenceRow::Adagrad() {
  for (uint32_t i = 0; i < p.dim; ++i) {
    const float step =
        p.optimizer.learning_rate * gradient[i] / std::sqrt(state[i] + p.optimizer.epsilon);
    state[i] = state[i] * p.optimizer.accumulator_decay + gradient[i] * gradient[i];
    Set(i, weights[i] - step);
  }
}

void ReferenceRow::RowWiseAdagrad() {
  for (uint32_t i = 0; i < p.dim; ++i) {
    Set(i, weights[i] -
               p.optimizer.learning_rate * gradient[i] / std::sqrt(state[0] + p.optimizer.epsilon));
  }
  state[0] = state[0] * p.optimizer.accumulator_decay + MeanSquare();
}

void ReferenceRow::Adam() {
  float* second = state + p.dim;
  float& updates = second[p.dim];
  updates = std::min(updates + 1.0F, kMaxAdamUpdates);
  const AdamScales scales = AdamScalesOf(p, updates);
  for (uint32_t i = 0; i < p.dim; ++i) {
    state[i] = p.optimizer.beta1 * state[i] + (1.0F - p.optimizer.beta1) * gradient[i];
    second[i] =
        p.optimizer.beta2 * second[i] + (1.0F - p.optimizer.beta2) * (gradient[i] * gradient[i]);
    const float root = std::sqrt(second[i] * scales.square) + p.optimizer.epsilon;
    Set(i, weights[i] - scales.step * state[i] / root);
  }
}

void ReferenceRow::RowWiseAdam() {
  float& second = state[p.dim];
  float& updates = state[p.dim + 1];
  updates = std::min(updates + 1.0F, kMaxAdamUpdates);
  const AdamScales scales = AdamScalesOf(p, updates);
  second = p.optimizer.beta2 * second + (1.0F - p.optimizer.beta2) * MeanSquare();
  const float root = std::sqrt(second * scales.square) + p.optimizer.epsilon;
  for (uint32_t i = 0; i < p.dim; ++i) {
    state[i] = p.optimizer.beta1 * state[i] + (1.0F - p.optimizer.beta1) * gradient[i];
    Set(i, weights[i] - scales.step * state[i] / root);
  }
}

void ReferenceRow::Ftrl() {
  float* squares = state + p.dim;
  float left[kMaxRowDim];
  for (uint32_t i = 0; i < p.dim; ++i) {
    const float sum = squares[i] + gradient[i] * gradient[i];
    const float sigma = (std::sqrt(sum) - std::sqrt(squares[i])) / p.optimizer.learning_rate;
    squares[i] = sum;
    state[i] = state[i] + (gradient[i] - sigma * weights[i]);
    if (p.optimizer.decoupled_weight_decay != 0) {
      const float share = p.optimizer.learning_rate * p.optimizer.decoupled_weight_decay;
      state[i] = state[i] + share * (Strength(sum) * weights[i]);
    }
    left[i] = 0.0F - (std::min(state[i] + p.optimizer.l1, 0.0F) +
                      std::max(state[i] - p.optimizer.l1, 0.0F));
  }
  float share = 1;
  if (p.rule == PlaceOf<rules::GroupFtrl>()) {
    const float norm = std::sqrt(SumOfSquares(left, p.dim));
    const float threshold = std::sqrt(static_cast<float>(p.dim)) * p.optimizer.group_l1;
    share = norm > threshold ? 1.0F - threshold / norm : 0.0F;
  }
  for (uint32_t i = 0; i < p.dim; ++i) {
    Set(i, share * left[i] / Strength(squares[i]));
  }
}

float Widened(RowPrecision precision, const std::byte* from) {
  if (precision == RowPrecision::kF32) {
    float value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  uint16_t half;
  std::memcpy(&half, from, sizeof(half));
  return precision == RowPrecision::kBf16 ? FromBf16(half) : FromF16(half);
}

void Store(RowPrecision precision, float value, uint32_t noise, std::byte* to) {
  if (precision == RowPrecision::kF32) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const uint16_t half =
      precision == RowPrecision::kBf16 ? ToBf16(value, noise) : ToF16(value, noise);
  std::memcpy(to, &half, sizeof(half));
}

}  // namespace

void UpdateRowReference(const RowUpdateParameters& parameters, const RowGradient& row) {
  ReferenceRow reference(parameters, row);
  const auto is = [&]<typename Rule>(Rule) { return parameters.rule == PlaceOf<Rule>(); };
  if (is(rules::Sgd())) return reference.Sgd();
  if (is(rules::Momentum()) || is(rules::Nesterov())) return reference.Momentum();
  if (is(rules::Adagrad())) return reference.Adagrad();
  if (is(rules::RowWiseAdagrad())) return reference.RowWiseAdagrad();
  if (is(rules::Adam())) return reference.Adam();
  if (is(rules::RowWiseAdam())) return reference.RowWiseAdam();
  if (is(rules::Ftrl()) || is(rules::GroupFtrl())) return reference.Ftrl();
  std::abort();  // A rule without a reference.
}

void ConvertRowReference(RowPrecision from, RowPrecision to, uint32_t count,
                         const RowConversion& row) {
  for (uint32_t i = 0; i < count; ++i) {
    Store(to, Widened(from, row.from + i * SizeOf(from)), kToNearest, row.to + i * SizeOf(to));
  }
}

void UpdateEncodedRowReference(const RowUpdateParameters& parameters, const RowFormat& format,
                               const EncodedRow& row) {
  float wide[kMaxRowFloats];
  std::byte* const state = row.values + format.state_offset();
  std::byte* const scalars = row.values + format.scalars_offset();
  const uint32_t vector_end = format.dim + format.vector_floats();
  const auto weight_at = [&](uint32_t i) { return row.values + i * SizeOf(format.weights); };
  const auto state_at = [&](uint32_t i) { return state + (i - format.dim) * SizeOf(format.state); };
  for (uint32_t i = 0; i < format.dim; ++i) wide[i] = Widened(format.weights, weight_at(i));
  for (uint32_t i = format.dim; i < vector_end; ++i) wide[i] = Widened(format.state, state_at(i));
  std::memcpy(wide + vector_end, scalars, format.shape.scalars * sizeof(float));
  UpdateRowReference(parameters, {wide, row.gradient});
  for (uint32_t i = 0; i < format.dim; ++i) {
    Store(format.weights, wide[i], ElementNoise(row.noise, i), weight_at(i));
  }
  for (uint32_t i = format.dim; i < vector_end; ++i) {
    Store(format.state, wide[i], ElementNoise(row.noise, i), state_at(i));
  }
  std::memcpy(scalars, wide + vector_end, format.shape.scalars * sizeof(float));
}

void FillUniformReference(uint64_t row_seed, const UniformRange& range, std::span<float> row) {
  const auto scaled = [&](uint64_t bits) {
    const float unit = static_cast<float>(static_cast<int32_t>(bits & 0xffffff)) * 0x1.0p-24F;
    return std::min(range.low + unit * range.width, range.highest);
  };
  Random random(row_seed);
  uint64_t bits = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (i % 2 == 0) bits = random();
    row[i] = scaled(i % 2 == 0 ? bits >> 40 : bits >> 16);
  }
}

}  // namespace simurgh
