#include "table/update_rules.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/simd/row_update.h"
#include "tests/unit/table/exact_optimizer.h"

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

// The optimizer of a row outside a table.
struct Optimizer {
  Optimizer(const SparseOptimizerConfig& config, uint32_t dim, float weight_bound)
      : parameters(ParametersOf({.dim = dim, .optimizer = config, .weight_bound = weight_bound})) {}

  uint32_t state_floats() const { return StateShapeOf(parameters.rule).floats(parameters.dim); }
  void Update(float learning_rate, const RowGradient& row) {
    parameters.optimizer.learning_rate = learning_rate;
    UpdateRows(parameters, {&row, 1});
  }

  RowUpdateParameters parameters;
};

SparseOptimizerConfig Adagrad(bool row_wise) {
  SparseOptimizerConfig config;
  config.kind = SparseOptimizerConfig::Kind::kAdagrad;
  config.row_wise = row_wise;
  return config;
}

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
  Optimizer optimizer(config, kDim, 10.0F);
  const size_t state_floats = row_wise ? 1 : kDim;
  REQUIRE(optimizer.state_floats() == state_floats);
  std::vector<float> row = kWeights;
  row.resize(kDim + state_floats);
  InitializeState(optimizer.parameters, {row.data() + kDim, state_floats});
  ExactOptimizer exact(config, 10.0F, kWeights);
  for (const std::vector<float>& gradient : kGradients) {
    optimizer.Update(0.01F, {row.data(), gradient.data()});
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
  CHECK(LargestRelativeError(row.data(), exact.weights()) < 2e-6);
  const std::vector<double> accumulators(exact.second().begin(),
                                         exact.second().begin() + static_cast<int>(state_floats));
  CHECK(LargestRelativeError(row.data() + kDim, accumulators) < 5e-7);
}

using Kind = SparseOptimizerConfig::Kind;

std::vector<float> NewRow(const Optimizer& optimizer, const std::vector<float>& weights) {
  std::vector<float> row = weights;
  row.resize(weights.size() + optimizer.state_floats());
  InitializeState(optimizer.parameters, {row.data() + weights.size(), optimizer.state_floats()});
  return row;
}

// What is tested over many steps, with the floats of state a row of dim D has: vectors * D +
// scalars.
struct Case {
  const char* name;
  SparseOptimizerConfig config;
  uint32_t vectors;
  uint32_t scalars;
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"sgd", {.kind = Kind::kSgd}, 0, 0},
      {"momentum", {.kind = Kind::kSgd, .momentum = 0.9F}, 1, 0},
      {"nesterov", {.kind = Kind::kSgd, .momentum = 0.9F, .nesterov = true}, 1, 0},
      {"adagrad", {.kind = Kind::kAdagrad, .accumulator_decay = 0.99F}, 1, 0},
      {"row-wise adagrad",
       {.kind = Kind::kAdagrad, .accumulator_decay = 0.99F, .row_wise = true},
       0,
       1},
      {"adam", {.kind = Kind::kAdam, .epsilon = 1e-8F}, 2, 1},
      {"adam, fast", {.kind = Kind::kAdam, .beta1 = 0.5F, .beta2 = 0.75F}, 2, 1},
      {"row-wise adam", {.kind = Kind::kAdam, .row_wise = true}, 1, 2},
      {"adamw", {.kind = Kind::kAdam, .decoupled_weight_decay = 0.1F}, 2, 1},
      {"ftrl", {.kind = Kind::kFtrl, .l1 = 0.5F, .l2 = 0.1F}, 2, 0},
      {"group ftrl", {.kind = Kind::kGroupFtrl, .l1 = 0.1F, .group_l1 = 0.2F}, 2, 0},
      {"ftrl, l2 of each update",
       {.kind = Kind::kFtrl, .l1 = 0.1F, .l2 = 0.1F, .weight_decay = 0.5F},
       2,
       0},
      {"ftrl, decoupled",
       {.kind = Kind::kFtrl, .l1 = 0.1F, .l2 = 0.1F, .decoupled_weight_decay = 0.5F},
       2,
       0},
      {"group ftrl, both",
       {.kind = Kind::kGroupFtrl,
        .group_l1 = 0.1F,
        .weight_decay = 0.2F,
        .decoupled_weight_decay = 0.3F},
       2,
       0},
      {"l2", {.kind = Kind::kAdagrad, .weight_decay = 0.5F}, 1, 0},
      {"decoupled", {.kind = Kind::kSgd, .decoupled_weight_decay = 0.5F}, 0, 0},
      {"clipped", {.kind = Kind::kAdagrad, .max_gradient_norm = 0.5F}, 1, 0},
      {"clipped and decayed",
       {.kind = Kind::kAdam, .weight_decay = 0.2F, .max_gradient_norm = 0.5F},
       2,
       1},
  };
  return cases;
}

TEST_CASE("optimizers stay with double precision over many random steps") {
  const size_t number = GENERATE(range(size_t{0}, Cases().size()));
  const uint32_t dim = GENERATE(1, 7, 16, 64, 129);
  const Case& tested = Cases()[number];
  INFO(tested.name << ", dim " << dim);
  const float bound = 0.5F;
  Optimizer optimizer(tested.config, dim, bound);
  REQUIRE(optimizer.state_floats() == tested.vectors * dim + tested.scalars);
  Random random(dim);
  std::vector<float> begin(dim);
  for (float& weight : begin) weight = static_cast<float>(random.Uniform() - 0.5);
  std::vector<float> row = NewRow(optimizer, begin);
  ExactOptimizer exact(tested.config, bound, begin);
  double largest = 0;
  for (int step = 0; step < 300; ++step) {
    std::vector<float> gradient(dim);
    for (float& value : gradient) value = static_cast<float>(random.Normal() * 0.2);
    optimizer.Update(0.05F, {row.data(), gradient.data()});
    exact.Step(0.05F, gradient);
    for (size_t i = 0; i < dim; ++i) {
      largest = std::max(largest, std::abs(row[i] - exact.weights()[i]));
      REQUIRE(std::abs(row[i]) <= bound);
    }
  }
  CHECK(largest < 2e-5);
}

TEST_CASE("without a gradient a decoupled decay takes its share of a weight, with each rule") {
  constexpr uint32_t kRowDim = 9;
  constexpr float kRate = 0.2F;
  constexpr float kDecay = 0.25F;
  for (const Kind kind : {Kind::kSgd, Kind::kAdagrad, Kind::kAdam, Kind::kFtrl, Kind::kGroupFtrl}) {
    CAPTURE(static_cast<int>(kind));
    Optimizer optimizer({.kind = kind, .l2 = 0.3F, .decoupled_weight_decay = kDecay}, kRowDim, 10);
    std::vector<float> row = NewRow(optimizer, std::vector<float>(kRowDim, 0.5F));
    // FTRL's weights follow from its state after an update.
    const std::vector<float> gradient(kRowDim, kind == Kind::kAdam ? 0.0F : -0.7F);
    optimizer.Update(kRate, {row.data(), gradient.data()});
    const std::vector<float> before(row.begin(), row.begin() + kRowDim);
    const std::vector<float> none(kRowDim, 0.0F);
    optimizer.Update(kRate, {row.data(), none.data()});
    for (size_t i = 0; i < kRowDim; ++i) {
      CHECK(row[i] == Approx(before[i] * (1 - kRate * kDecay)).epsilon(1e-5));
    }
  }
}

// kWeights after kGradients at a rate of 0.1: printed by PyTorch 2.15.0, torch.optim.SGD, Adam and
// AdamW in float64 with the settings of each case (PyTorch calls l2 weight_decay, too).
TEST_CASE("momentum, nesterov, adam and adamw give PyTorch's values") {
  struct Published {
    const char* name;
    SparseOptimizerConfig config;
    std::vector<double> weights;
  };
  const auto tested = GENERATE(values<Published>({
      {"momentum",
       {.kind = Kind::kSgd, .momentum = 0.9F},
       {0.4588211, -0.313208, -0.2319273, 0.0734614, -0.331703, 0.448404, 0.1222599, 0.3372575,
        0.1659924, -0.3122023, 0.6756056, 0.625641}},
      {"nesterov",
       {.kind = Kind::kSgd, .momentum = 0.9F, .nesterov = true},
       {0.35778899, -0.4962572, -0.36695457, -0.08780474, -0.4890527, 0.3321636, 0.11024391,
        0.20710175, -0.01917684, -0.44212207, 0.63350504, 0.5347869}},
      {"nesterov, weight_decay",
       {.kind = Kind::kSgd, .momentum = 0.9F, .nesterov = true, .weight_decay = 0.5F},
       {0.12667765, -0.47898886, -0.36434668, -0.20290413, -0.45589979, 0.10421174, 0.057623811,
        7.03828e-05, -0.18250424, -0.40349548, 0.36231407, 0.24571599}},
      {"adam",
       {.kind = Kind::kAdam, .epsilon = 1e-8F},
       {0.44118164, -0.24843116, -0.15515218, 0.15234198, -0.26839785, 0.40367049, -0.1201433,
        0.4232299, 0.26002841, -0.25011682, 0.50621579, 0.59525689}},
      {"adam, weight_decay, betas (0.5, 0.75)",
       {.kind = Kind::kAdam, .epsilon = 1e-2F, .beta1 = 0.5F, .beta2 = 0.75F, .weight_decay = 0.5F},
       {0.44841442, -0.25893324, -0.13537906, 0.15416846, -0.25987856, 0.404029, -0.082696907,
        0.43167734, 0.2598732, -0.22708543, 0.48218295, 0.59170073}},
      {"adamw",
       {.kind = Kind::kAdam, .epsilon = 1e-8F, .decoupled_weight_decay = 0.5F},
       {0.35163735, -0.23909435, -0.15951515, 0.10444051, -0.25803795, 0.31884864, -0.127514,
        0.337024, 0.19492527, -0.2398451, 0.41029737, 0.48537957}},
  }));
  INFO(tested.name);
  Optimizer optimizer(tested.config, kDim, 10.0F);
  std::vector<float> row = NewRow(optimizer, kWeights);
  for (const std::vector<float>& gradient : kGradients) {
    optimizer.Update(0.1F, {row.data(), gradient.data()});
  }
  for (size_t i = 0; i < kDim; ++i) CHECK(std::abs(row[i] - tested.weights[i]) < 1e-6);
}

// From the tests of TensorFlow, tensorflow/python/keras/optimizer_v2/ftrl_test.py, with its doubled
// l2: a rate of 3, and always the same gradient.
TEST_CASE("ftrl gives TensorFlow's values") {
  struct Published {
    float beta;
    float l1;
    float l2;
    std::vector<float> begin;
    int steps;
    std::vector<double> weights;
  };
  const std::vector<float> zeros(4);
  const std::vector<float> some = {1.0F, 2.0F, 4.0F, 3.0F};
  const auto tested = GENERATE_COPY(values<Published>({
      {0.0F, 0.0F, 0.0F, zeros, 3, {-2.60260963, -4.29698515, -0.28432083, -0.56694895}},
      {0.0F, 0.0F, 0.0F, some, 3, {-2.55607247, -3.98729396, -0.28232238, -0.56096673}},
      {0.0F, 0.001F, 0.0F, some, 10, {-7.66718769, -10.91273689, -0.93460727, -1.86147261}},
      {0.0F, 0.001F, 4.0F, some, 10, {-0.24059935, -0.46829352, -0.02406147, -0.04830509}},
      {0.1F, 0.0F, 0.0F, some, 10, {-6.096838, -9.162214, -0.717741, -1.425132}},
      {0.1F, 0.0F, 0.2F, some, 10, {-2.735487, -4.704625, -0.294335, -0.586556}},
  }));
  const SparseOptimizerConfig config{.kind = Kind::kFtrl,
                                     .initial_accumulator = 0.1F,
                                     .beta = tested.beta,
                                     .l1 = tested.l1,
                                     .l2 = tested.l2};
  Optimizer optimizer(config, 4, 100.0F);
  std::vector<float> row = NewRow(optimizer, tested.begin);
  const std::vector<float> gradient = {0.1F, 0.2F, 0.01F, 0.02F};
  for (int step = 0; step < tested.steps; ++step) {
    optimizer.Update(3.0F, {row.data(), gradient.data()});
  }
  CHECK(LargestRelativeError(row.data(), tested.weights) < 1e-5);
}

TEST_CASE("adam's first step is the learning rate, whatever the gradient's size") {
  const bool row_wise = GENERATE(false, true);
  Optimizer optimizer({.kind = Kind::kAdam, .row_wise = row_wise}, 2, 10.0F);
  for (const float size : {1e-3F, 1.0F, 1e3F}) {
    std::vector<float> row = NewRow(optimizer, {0.5F, 0.5F});
    const std::vector<float> gradient = {size, -size};
    optimizer.Update(0.125F, {row.data(), gradient.data()});
    CHECK(row[0] == Approx(0.375).epsilon(1e-5));
    CHECK(row[1] == Approx(0.625).epsilon(1e-5));
  }
}

TEST_CASE("a row's adam update count stops at the largest exact float") {
  Optimizer optimizer({.kind = Kind::kAdam}, 1, 10.0F);
  std::vector<float> row = {0.0F, 0.0F, 0.0F, kMaxAdamUpdates - 1};
  const std::vector<float> gradient = {1.0F};
  for (int step = 0; step < 3; ++step) {
    optimizer.Update(0.1F, {row.data(), gradient.data()});
    CHECK(row[3] == kMaxAdamUpdates);
    CHECK(std::isfinite(row[0]));
  }
}

TEST_CASE("group ftrl makes small rows zero as a whole, ftrl does not") {
  SparseOptimizerConfig config{.kind = Kind::kGroupFtrl, .group_l1 = 1.0F};
  const std::vector<float> gradient = {0.01F, 0.3F, -0.2F};
  for (const bool group : {true, false}) {
    if (!group) config.kind = Kind::kFtrl;
    Optimizer optimizer(config, 3, 10.0F);
    std::vector<float> row = NewRow(optimizer, {0.0F, 0.0F, 0.0F});
    optimizer.Update(0.1F, {row.data(), gradient.data()});
    for (size_t i = 0; i < 3; ++i) CHECK((row[i] == 0.0F) == group);
  }
}

TEST_CASE("weights are clamped to the bound after an update") {
  SparseOptimizerConfig config;
  config.kind = SparseOptimizerConfig::Kind::kSgd;
  Optimizer optimizer(config, 3, 0.25F);
  std::vector<float> row = {0.2F, 0.2F, 0.2F};
  const std::vector<float> gradient = {-1.0F, 1.0F, 0.125F};
  optimizer.Update(1.0F, {row.data(), gradient.data()});
  CHECK(row == std::vector<float>{0.25F, -0.25F, 0.2F - 0.125F});
}

}  // namespace
}  // namespace simurgh
