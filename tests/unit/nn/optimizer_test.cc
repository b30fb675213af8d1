#include "nn/cpu/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

using Kind = DenseOptimizerConfig::Kind;

// One parameter's values, named as in the formulas.
struct Reference {
  double w = 0;
  double m = 0;  // Or the velocity.
  double v = 0;  // Or the sum of squares.
};

// The step of the weight for a learning rate of 1; for lamb before its ratio.
double Direction(const DenseOptimizerConfig& config, double g, double step, Reference& p) {
  switch (config.kind) {
    case Kind::kSgd: {
      p.m = double{config.momentum} * p.m + g;
      return config.nesterov ? g + double{config.momentum} * p.m : p.m;
    }
    case Kind::kAdagrad:
      p.v += g * g;
      return g / (std::sqrt(p.v) + double{config.epsilon});
    case Kind::kAdam:
    case Kind::kLamb: {
      const double b1 = config.beta1;
      const double b2 = config.beta2;
      p.m = b1 * p.m + (1 - b1) * g;
      p.v = b2 * p.v + (1 - b2) * g * g;
      return p.m / (1 - std::pow(b1, step)) /
             (std::sqrt(p.v / (1 - std::pow(b2, step))) + double{config.epsilon});
    }
  }
  return 0;
}

void StepReference(const DenseOptimizerConfig& config, double rate, double step,
                   const std::vector<ColumnRange>& blocks, const std::vector<float>& gradients,
                   std::vector<Reference>& parameters) {
  double squares = 0;
  for (const double g : gradients) squares += g * g;
  const double limit = config.max_gradient_norm;
  const double scale = limit > 0 && std::sqrt(squares) > limit ? limit / std::sqrt(squares) : 1;
  const double decay = config.decoupled_weight_decay;
  for (const ColumnRange& block : blocks) {
    std::vector<double> directions;
    double weight_squares = 0;
    double direction_squares = 0;
    for (size_t i = block.first; i < block.first + block.count; ++i) {
      Reference& p = parameters[i];
      const double g = scale * gradients[i] + double{config.weight_decay} * p.w;
      directions.push_back(Direction(config, g, step, p) + decay * p.w);
      weight_squares += p.w * p.w;
      direction_squares += directions.back() * directions.back();
    }
    double trust = 1;
    if (config.kind == Kind::kLamb && weight_squares > 0 && direction_squares > 0) {
      trust = std::sqrt(weight_squares) / std::sqrt(direction_squares);
    }
    for (size_t i = 0; i < block.count; ++i) {
      parameters[block.first + i].w -= rate * trust * directions[i];
    }
  }
}

// The last block begins at zero weights.
void CompareSteps(const DenseOptimizerConfig& config) {
  const std::vector<ColumnRange> blocks{{0, 1}, {1, 37}, {38, 1000}, {1038, 5}};
  constexpr size_t kCount = 1043;
  Random random(17);
  std::vector<float> weights = NormalValues(kCount, random);
  std::fill(weights.begin() + 1038, weights.end(), 0.0F);
  std::vector<Reference> reference(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    reference[i] = {.w = weights[i], .v = double{config.initial_accumulator}};
  }
  std::vector<float> state(cpu::OptimizerStateSize(config, kCount));
  cpu::InitializeOptimizerState(config, state);
  for (int step = 1; step <= 6; ++step) {
    const float rate = 0.01F * static_cast<float>(step);  // A schedule.
    const std::vector<float> gradients = NormalValues(kCount, random);
    cpu::ApplyOptimizer(config, rate, blocks, weights, gradients, state);
    StepReference(config, double{rate}, step, blocks, gradients, reference);
    double worst = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const double error = std::abs(weights[i] - reference[i].w);
      if (!(error <= worst)) worst = error;
    }
    CAPTURE(step);
    CHECK(worst < 2e-5);
  }
}

TEST_CASE("every optimizer's step equals its formula in f64") {
  CompareSteps({});
  CompareSteps({.momentum = 0.9F});
  CompareSteps({.momentum = 0.9F, .nesterov = true});
  CompareSteps({.kind = Kind::kAdam});
  CompareSteps({.kind = Kind::kAdam, .beta1 = 0.5F, .beta2 = 0.8F, .epsilon = 0.1F});
  CompareSteps({.kind = Kind::kAdagrad, .epsilon = 1e-6F});
  CompareSteps({.kind = Kind::kAdagrad, .initial_accumulator = 0.5F});
  CompareSteps({.kind = Kind::kLamb});
  CompareSteps({.kind = Kind::kLamb, .decoupled_weight_decay = 0.3F});
}

TEST_CASE("both weight decays and the limit of the norm work with every optimizer") {
  for (const Kind kind : {Kind::kSgd, Kind::kAdam, Kind::kAdagrad, Kind::kLamb}) {
    CAPTURE(static_cast<int>(kind));
    CompareSteps({.kind = kind, .weight_decay = 0.2F});
    CompareSteps({.kind = kind, .decoupled_weight_decay = 0.2F});
    CompareSteps({.kind = kind, .weight_decay = 0.1F, .max_gradient_norm = 2.5F});
    CompareSteps({.kind = kind, .max_gradient_norm = 1e6F});  // Never reached.
  }
}

TEST_CASE("a gradient that is too long is scaled to the limit") {
  std::vector<float> weights(2, 0.0F);
  const std::vector<float> gradients{30.0F, -40.0F};
  const std::vector<ColumnRange> blocks{{0, 2}};
  cpu::ApplyOptimizer({.max_gradient_norm = 5.0F}, 1.0F, blocks, weights, gradients, {});
  CHECK(weights[0] == Approx(-3.0F));
  CHECK(weights[1] == Approx(4.0F));
}

TEST_CASE("the average of weights quickly forgets the first ones, then follows its decay") {
  const float decay = 0.6F;
  std::vector<float> weights{2.0F, -1.0F};
  std::vector<float> average(cpu::WeightAverageSize(decay, 2));
  cpu::InitializeWeightAverage(weights, average);
  CHECK(average == std::vector<float>{0.0F, 2.0F, -1.0F});
  double first = 2.0;
  Random random(3);
  for (int step = 1; step <= 20; ++step) {
    weights[0] = static_cast<float>(random.Normal());
    cpu::UpdateWeightAverage(decay, weights, average);
    const double kept = std::min(double{decay}, (1.0 + step) / (10.0 + step));
    first = kept * first + (1 - kept) * weights[0];
    CHECK(average[1] == Approx(first).margin(1e-6));
    CHECK(average[2] == Approx(-1.0F));
  }
  CHECK(average[0] == 20.0F);
  CHECK(cpu::WeightAverageSize(0.0F, 2) == 0);
}

}  // namespace
}  // namespace simurgh::testing
