#include "tests/unit/nn/cuda/training_run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include <catch2/catch.hpp>

#include "tests/unit/nn/test_backend.h"

namespace simurgh::testing {
namespace {

using Kind = DenseOptimizerConfig::Kind;

constexpr size_t kDense = 5;
constexpr size_t kEmbeddings = 24;

// The length of the difference.
template <typename T>
double Distance(std::span<const T> a, std::span<const T> b) {
  REQUIRE(a.size() == b.size());
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(squares);
}

void PutOff(std::span<float> values, float off, Random& directions) {
  for (float& value : values) value *= directions.Below(2) == 0 ? 1 + off : 1 - off;
}

// Perturbs the weights and returns the original ones; empty if off is 0.
std::vector<float> PutWeightsOff(DenseNetwork& network, float off, Random& directions) {
  if (off == 0) return {};
  const std::span<float> weights = network.parameters();
  std::vector<float> before(weights.begin(), weights.end());
  PutOff(weights, off, directions);
  return before;
}
void PutBack(DenseNetwork& network, const std::vector<float>& weights) {
  if (!weights.empty()) std::ranges::copy(weights, network.parameters().begin());
}

}  // namespace

ModelConfig EveryLayer(const LayerConfig& relu) {
  using Layer = LayerConfig::Kind;
  return {.towers = {
              {"numbers", {"dense"}, {BatchNorm(), Linear(16)}},
              {"ids",
               {"embeddings"},
               {Linear(33), relu, Dropout(0.1F), Linear(20), Gelu(), Dropout(0.1F), Sigmoid()}},
              {"pairs", {"embeddings", "numbers"}, {Dot(8)}},
              {"machine", {"embeddings"}, {Fm(6)}},
              {"cross", {"embeddings", "dense"}, {Cross(), Cross(5)}},
              {"plain", {"ids", "machine"}, {Linear(7), relu, Dropout(0.2F)}},
              {"norms",
               {"dense", "embeddings"},
               {LayerNorm(), Linear(12), Dice(), Linear(12), Plain(Layer::kPrelu),
                Plain(Layer::kL2Norm)}},
              {"gate", {"embeddings"}, {Linear(12), Plain(Layer::kGate)}},
              {"gated", {"norms", "gate"}, {Plain(Layer::kProduct, 2), Plain(Layer::kSilu)}},
              {"shares", {"dense"}, {Linear(3), Plain(Layer::kSoftmax)}},
              {"mixture",
               {"shares", "norms", "gate", "gated"},
               {Plain(Layer::kMix, 3), Plain(Layer::kTanh)}},
              {"fusion", {"gated", "mixture"}, {Plain(Layer::kBilinear, 3)}},
              {"joint", {"gated"}, {Linear(6), Plain(Layer::kJoint, 3)}},
              {"top",
               {"numbers", "embeddings", "ids", "pairs", "cross", "plain", "mixture", "fusion",
                "joint"},
               {Linear(40), relu, Linear(24), Gelu(), Linear(12), Gelu(), Linear(1)}},
          }};
}

DenseNetworkOptions RunOptions(const DenseOptimizerConfig& optimizer) {
  DenseNetworkOptions options;
  options.inputs = {.dense_width = kDense, .embedding_width = kEmbeddings};
  options.optimizer = optimizer;
  return options;
}

std::unique_ptr<DenseNetwork> WiredNetwork(ComputePrecision compute, const EmbeddingWire& wire,
                                           bool replays) {
  DenseNetworkOptions options =
      RunOptions({.kind = DenseOptimizerConfig::Kind::kAdam, .epsilon = 1e-3F});
  options.precision = compute;
  options.wire = wire;
  auto network = CreateTestNetwork(EveryLayer(), options, replays);
  REQUIRE(network.ok());
  return std::move(*network);
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

TrainingRun Train(DenseNetwork& network, int steps, float off) {
  constexpr float kRate = 0.01F;
  TrainingRun run;
  Random directions(7);
  for (int step = 0; step < steps; ++step) {
    Random random(static_cast<uint64_t>(step) + 1);
    const size_t rows = step % 5 == 4 ? 33 : 96;
    TestBatch batch(rows, kDense, kEmbeddings, random);
    for (size_t r = 0; r < rows; ++r) {
      batch.labels[r] = batch.dense()(r, 0) + batch.embeddings()(r, 3) > 0 ? 1.0F : 0.0F;
    }
    std::vector<float> probabilities(rows, NAN);
    run.embedding_gradient.assign(rows * kEmbeddings, NAN);
    const std::vector<float> weights = PutWeightsOff(network, off, directions);
    // In two of four steps, so of each slot, if the network can.
    const bool applied = off == 0 && step % 4 < 2 && network.ApplyNext(kRate);
    const auto result = ComputeGradients(network, batch.dense(), batch.embeddings(), batch.labels,
                                         {run.embedding_gradient.data(), rows, kEmbeddings},
                                         probabilities, {.step = static_cast<uint64_t>(step)});
    PutBack(network, weights);
    REQUIRE(result.ok());
    REQUIRE(result->finite);
    CHECK(std::ranges::none_of(probabilities, [](float p) { return std::isnan(p); }));
    run.losses.push_back(result->loss);
    if (!applied) REQUIRE(network.ApplyGradients(kRate).ok());
  }
  Random random(99);
  TestBatch batch(50, kDense, kEmbeddings, random);
  run.predictions.assign(50, NAN);
  // Averaged weights are not perturbed, but the activations they multiply are.
  PutOff(batch.embedding_values, off, directions);
  const std::vector<float> weights = PutWeightsOff(network, off, directions);
  REQUIRE(PredictFrom(network, batch.dense(), batch.embeddings(), run.predictions).ok());
  PutBack(network, weights);
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

ExpectedRun ExpectAsOnCpu(const DenseNetworkOptions& options, int steps) {
  constexpr double kLongestSum = 106;  // Inputs of EveryLayer's top; a batch has 96 rows.
  auto network = CreateCpuNetwork(EveryLayer(), options);
  REQUIRE(network.ok());
  const auto off = static_cast<float>(6 * std::sqrt(kLongestSum) * 0x1p-24);
  return {.run = TrainOnCpu(options, steps), .off = Train(**network, steps, off)};
}

void CheckSameTraining(const TrainingRun& actual, const ExpectedRun& expected) {
  const auto check = [&](const char* what, const auto& values) {
    const double distance = Distance(values(actual), values(expected.run));
    const double limit = 2 * Distance(values(expected.off), values(expected.run));
    CAPTURE(what, distance, limit);
    CHECK(distance <= limit);
  };
  check("losses", [](const TrainingRun& run) { return std::span(run.losses); });
  check("parameters", [](const TrainingRun& run) { return std::span(run.parameters); });
  check("state", [](const TrainingRun& run) { return std::span(run.state); });
  check("gradient", [](const TrainingRun& run) { return std::span(run.embedding_gradient); });
  check("predictions", [](const TrainingRun& run) { return std::span(run.predictions); });
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

}  // namespace simurgh::testing
