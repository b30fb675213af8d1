#include "tests/unit/nn/cuda/training_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <catch2/catch.hpp>

namespace simurgh::testing {
namespace {

using Kind = DenseOptimizerConfig::Kind;

constexpr size_t kDense = 5;
constexpr size_t kEmbeddings = 24;

}  // namespace

ModelConfig EveryLayer(const LayerConfig& relu) {
  return {.towers = {
              {"numbers", {"dense"}, {BatchNorm(), Linear(16)}},
              {"ids", {"embeddings"}, {Linear(33), relu, Linear(20), Gelu(), Sigmoid()}},
              {"pairs", {"embeddings", "numbers"}, {Dot(8)}},
              {"machine", {"embeddings"}, {Fm(6)}},
              {"cross", {"embeddings", "dense"}, {Cross(), Cross(5)}},
              {"plain", {"ids", "machine"}, {Linear(7), relu}},
              {"top",
               {"numbers", "embeddings", "ids", "pairs", "cross", "plain"},
               {Linear(40), relu, Linear(24), Gelu(), Linear(12), Gelu(), Linear(1)}},
          }};
}

DenseNetworkOptions RunOptions(const DenseOptimizerConfig& optimizer) {
  DenseNetworkOptions options;
  options.inputs = {.dense_width = kDense, .embedding_width = kEmbeddings};
  options.optimizer = optimizer;
  return options;
}

std::vector<DenseOptimizerConfig> RunOptimizers() {
  return {
      {},
      {.momentum = 0.9F},
      {.momentum = 0.9F, .nesterov = true, .weight_decay = 0.01F},
      {.kind = Kind::kAdam, .epsilon = 1e-3F, .average_decay = 0.9F},
      {.kind = Kind::kAdam, .epsilon = 1e-3F, .decoupled_weight_decay = 0.1F},
      {.kind = Kind::kAdagrad, .epsilon = 1e-3F, .initial_accumulator = 0.1F},
      {.kind = Kind::kLamb, .epsilon = 1e-3F},
      {.kind = Kind::kLamb,
       .epsilon = 1e-3F,
       .decoupled_weight_decay = 0.1F,
       .max_gradient_norm = 0.05F},
      {.max_gradient_norm = 0.01F, .average_decay = 0.5F},
  };
}

TrainingRun Train(DenseNetwork& network, int steps) {
  TrainingRun run;
  for (int step = 0; step < steps; ++step) {
    Random random(static_cast<uint64_t>(step) + 1);
    const size_t rows = step % 5 == 4 ? 33 : 96;
    TestBatch batch(rows, kDense, kEmbeddings, random);
    for (size_t r = 0; r < rows; ++r) {
      batch.labels[r] = batch.dense()(r, 0) + batch.embeddings()(r, 3) > 0 ? 1.0F : 0.0F;
    }
    std::vector<float> probabilities(rows, NAN);
    run.embedding_gradient.assign(rows * kEmbeddings, NAN);
    const auto result =
        network.ForwardBackward(batch.dense(), batch.embeddings(), batch.labels,
                                {run.embedding_gradient.data(), rows, kEmbeddings}, probabilities);
    REQUIRE(result.ok());
    REQUIRE(result->finite);
    CHECK(std::ranges::none_of(probabilities, [](float p) { return std::isnan(p); }));
    run.losses.push_back(result->loss);
    REQUIRE(network.ApplyGradients(0.01F).ok());
  }
  Random random(99);
  const TestBatch batch(50, kDense, kEmbeddings, random);
  run.predictions.assign(50, NAN);
  REQUIRE(network.Predict(batch.dense(), batch.embeddings(), run.predictions).ok());
  run.parameters.assign(network.parameters().begin(), network.parameters().end());
  run.state.assign(network.state().begin(), network.state().end());
  return run;
}

TrainingRun TrainOnCpu(const DenseNetworkOptions& options, int steps, const ModelConfig& model) {
  auto network = CreateCpuNetwork(model, options);
  REQUIRE(network.ok());
  return Train(**network, steps);
}

double RelativeError(std::span<const float> actual, std::span<const float> expected) {
  REQUIRE(actual.size() == expected.size());
  double errors = 0;
  double squares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    errors += std::pow(double{actual[i]} - double{expected[i]}, 2);
    squares += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(errors / squares);
}

void CheckNear(std::span<const float> actual, std::span<const float> expected, double tolerance) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i, actual[i], expected[i]);
    const double scale = std::max(1.0, std::abs(double{expected[i]}));
    if (!(std::abs(double{actual[i]} - double{expected[i]}) <= tolerance * scale)) FAIL("differs");
  }
}

void CheckSameTraining(const TrainingRun& actual, const TrainingRun& expected) {
  REQUIRE(actual.losses.size() == expected.losses.size());
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    CHECK(actual.losses[i] == Approx(expected.losses[i]).epsilon(1e-4));
  }
  CheckNear(actual.parameters, expected.parameters, 5e-4);
  CheckNear(actual.state, expected.state, 5e-4);
  CheckNear(actual.embedding_gradient, expected.embedding_gradient, 1e-4);
  CheckNear(actual.predictions, expected.predictions, 5e-4);
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace simurgh::testing
