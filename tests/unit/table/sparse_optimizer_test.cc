#include "table/sparse_optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"

namespace simurgh {
namespace {

constexpr uint32_t kDim = 12;

// Three steps of PERSIA's published test of its optimizers.
const std::vector<float> kWeights = {.7306F, .0340F, .1331F, .4355F, .0305F, .6968F,
                                     .1528F, .7074F, .5598F, .0271F, .7671F, .8731F};
const std::vector<std::vector<float>> kGradients = {
    {.6039F, .2480F, .8303F, .8006F, .6830F, .4730F, .0381F, .8375F, .5836F, .8673F, .2224F,
     .4040F},
    {.4478F, .9670F, .5724F, .3074F, .5760F, .2937F, .0995F, .6640F, .7718F, .3016F, .0246F,
     .6975F},
    {.2304F, .9627F, .3126F, .8667F, .6767F, .6441F, .0131F, .1702F, .8901F, .4696F, .2655F,
     .0545F}};

SparseOptimizerConfig Adagrad(bool row_wise) {
  SparseOptimizerConfig config;
  config.kind = SparseOptimizerConfig::Kind::kAdagrad;
  config.row_wise = row_wise;
  return config;
}

// The formulas of sparse_optimizer.h in double precision, on weights and state side by side.
struct Exact {
  Exact(const SparseOptimizerConfig& optimizer, float weight_bound, const std::vector<float>& begin,
        size_t state_floats)
      : config(optimizer),
        bound(weight_bound),
        weights(begin.begin(), begin.end()),
        state(state_floats, optimizer.initial_accumulator) {}

  void Step(double rate, const std::vector<float>& gradient) {
    double mean_square = 0;
    for (const float g : gradient) {
      mean_square += double{g} * g / static_cast<double>(gradient.size());
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      const double g = gradient[i];
      double step = rate * g;
      if (!state.empty()) step /= std::sqrt(state[state.size() == 1 ? 0 : i] + config.epsilon);
      if (state.size() > 1) state[i] = state[i] * config.accumulator_decay + g * g;
      weights[i] = std::clamp(weights[i] - step, -bound, bound);
    }
    if (state.size() == 1) state[0] = state[0] * config.accumulator_decay + mean_square;
  }

  SparseOptimizerConfig config;
  double bound;
  std::vector<double> weights;
  std::vector<double> state;
};

double LargestRelativeError(const float* actual, const std::vector<double>& expected) {
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest,
                       std::abs(actual[i] - expected[i]) / std::max(std::abs(expected[i]), 1e-3));
  }
  return largest;
}

TEST_CASE("adagrad gives PERSIA's values") {
  const bool row_wise = GENERATE(false, true);
  const SparseOptimizerConfig config = Adagrad(row_wise);
  const SparseOptimizer optimizer(config, kDim, 10.0F);
  const size_t state_floats = row_wise ? 1 : kDim;
  REQUIRE(optimizer.state_floats() == state_floats);
  std::vector<float> row = kWeights;
  row.resize(kDim + state_floats);
  optimizer.InitializeState({row.data() + kDim, state_floats});
  Exact exact(config, 10.0F, kWeights, state_floats);
  for (const std::vector<float>& gradient : kGradients) {
    const RowGradient update{row.data(), gradient.data()};
    optimizer.Update(0.01F, {&update, 1});
    exact.Step(0.01F, gradient);
  }
  const std::vector<double> weights =
      row_wise ? std::vector<double>{.6601662,    -.018124206, .03701234, .33996183,
                                     -.055326782, .63694036,   .14721976, .6108338,
                                     .47815663,   -.070203856, .741245,   .82074344}
               : std::vector<double>{.6598564,    -.036559787, .04014046, .34159237,
                                     -.053671654, .6320387,    .1387946,  .6141905,
                                     .47925496,   -.06816861,  .7330182,  .81526995};
  const std::vector<double> state =
      row_wise
          ? std::vector<double>{.99936616}
          : std::vector<double>{.6283042,   1.9333843, 1.1247585, 1.496624, 1.2661879, .7348535,
                                .021523468, 1.1812702, 1.7385421, 1.073696, .13055718, .6626925};
  // PERSIA takes an approximate reciprocal square root.
  CHECK(LargestRelativeError(row.data(), weights) < 1e-3);
  CHECK(LargestRelativeError(row.data() + kDim, state) < 1e-3);
  // We do not.
  CHECK(LargestRelativeError(row.data(), exact.weights) < 2e-6);
  CHECK(LargestRelativeError(row.data() + kDim, exact.state) < 5e-7);
}

TEST_CASE("optimizers stay with double precision over many random steps") {
  const int kind = GENERATE(0, 1, 2);
  const uint32_t dim = GENERATE(1, 7, 16, 64, 129);
  SparseOptimizerConfig config = Adagrad(kind == 2);
  if (kind == 0) config.kind = SparseOptimizerConfig::Kind::kSgd;
  config.accumulator_decay = 0.99F;
  const float bound = 0.5F;
  const SparseOptimizer optimizer(config, dim, bound);
  const size_t state_floats = optimizer.state_floats();
  REQUIRE(state_floats == (kind == 0 ? 0 : kind == 1 ? dim : 1));
  Random random(dim);
  std::vector<float> begin(dim);
  for (float& weight : begin) weight = static_cast<float>(random.Uniform() - 0.5);
  std::vector<float> row = begin;
  row.resize(dim + state_floats);
  optimizer.InitializeState({row.data() + dim, state_floats});
  Exact exact(config, bound, begin, state_floats);
  for (int step = 0; step < 300; ++step) {
    std::vector<float> gradient(dim);
    for (float& value : gradient) value = static_cast<float>(random.Normal() * 0.2);
    const RowGradient update{row.data(), gradient.data()};
    optimizer.Update(0.05F, {&update, 1});
    exact.Step(0.05F, gradient);
  }
  CHECK(LargestRelativeError(row.data() + dim, exact.state) < 1e-5);
  double largest = 0;
  for (size_t i = 0; i < dim; ++i) {
    largest = std::max(largest, std::abs(row[i] - exact.weights[i]));
    CHECK(std::abs(row[i]) <= bound);
  }
  CHECK(largest < 1e-5);
}

TEST_CASE("weights are clamped to the bound after an update") {
  SparseOptimizerConfig config;
  config.kind = SparseOptimizerConfig::Kind::kSgd;
  const SparseOptimizer optimizer(config, 3, 0.25F);
  std::vector<float> row = {0.2F, 0.2F, 0.2F};
  const std::vector<float> gradient = {-1.0F, 1.0F, 0.125F};
  const RowGradient update{row.data(), gradient.data()};
  optimizer.Update(1.0F, {&update, 1});
  CHECK(row == std::vector<float>{0.25F, -0.25F, 0.2F - 0.125F});
}

}  // namespace
}  // namespace simurgh
