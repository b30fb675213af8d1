#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "nn/dense_network.h"
#include "tests/unit/nn/reference_network.h"
#include "tests/unit/nn/test_backend.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDense = 3;
constexpr size_t kEmbeddings = kTestFeatures * kTestDim;

// Checks |value - reference| <= tolerance * max(1, |reference|) for every value.
template <typename Values>
void CheckClose(const std::string& what, const Values& actual, const std::vector<double>& expected,
                double tolerance) {
  INFO(what);
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i, actual[i], expected[i]);
    // Negated, so that NaN fails.
    if (!(std::abs(actual[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])))) {
      FAIL("differs");
    }
  }
}

// A batch whose labels fit the losses, with the samples' weights or without.
TestBatch BatchFor(const ModelConfig& model, size_t rows, bool weighted, Random& random) {
  const std::vector<TaskConfig> tasks = TasksOf(model);
  TestBatch batch(rows, kDense, kEmbeddings, random, tasks.size());
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    const LossConfig::Kind kind = tasks[i % tasks.size()].loss.kind;
    if (kind == LossConfig::Kind::kSquaredError) {
      batch.labels[i] = 3.0F * static_cast<float>(random.Normal());
    }
    if (kind == LossConfig::Kind::kPoisson) batch.labels[i] = static_cast<float>(random.Below(5));
  }
  for (size_t row = 0; weighted && row < rows; ++row) {
    batch.labels.push_back(static_cast<float>(random.Below(4)) / 2.0F);
  }
  return batch;
}

// Trains both for some steps on batches of varying size. follow: the reference takes the network's
// gradients and begins each step at its weights.
void CompareTraining(const ModelConfig& model, const DenseOptimizerConfig& optimizer, bool follow,
                     Random& random, bool weighted = false) {
  ModelInputs inputs = TestInputs(kDense);
  inputs.has_sample_weights = weighted;
  auto created = CreateTestNetwork(model, {.inputs = inputs, .optimizer = optimizer});
  REQUIRE(created.ok());
  DenseNetwork& network = **created;
  // Not batch norm's initial values: scale 1 hides errors, and shift 0 puts a batch's single row on
  // the kink of relu, where differences and gradients disagree.
  for (float& weight : network.parameters()) {
    weight += 0.2F * static_cast<float>(random.Normal());
  }
  ReferenceNetwork reference(model, optimizer, network.parameters());

  for (const size_t rows : {7, 5, 12, 1, 7}) {
    const TestBatch batch = BatchFor(model, rows, weighted, random);
    std::vector<float> probabilities(rows * TaskCount(model));
    std::vector<float> embedding_gradient(rows * kEmbeddings);
    const auto result =
        ComputeGradients(network, batch.dense(), batch.embeddings(), batch.labels,
                         {embedding_gradient.data(), rows, kEmbeddings}, probabilities);
    REQUIRE(result.ok());
    CHECK(result->finite);
    const auto expected = reference.ForwardBackward(batch);
    CHECK(result->loss == Approx(expected.loss).epsilon(1e-5));
    CheckClose("probabilities", probabilities, expected.probabilities, 2e-5);
    CheckClose("parameter gradient", network.gradients(), expected.parameter_gradient, 1e-4);
    CheckClose("embedding gradient", embedding_gradient, expected.embedding_gradient, 1e-4);

    const std::vector<double> gradient(network.gradients().begin(), network.gradients().end());
    REQUIRE(network.ApplyGradients(optimizer.learning_rate).ok());
    reference.ApplyGradients(follow ? gradient : expected.parameter_gradient);
    CheckClose("parameters", network.parameters(), reference.parameters(), 1e-4);
    CheckClose("state", network.state(), reference.State(), 1e-4);
    if (follow) reference.SetParameters(network.parameters());
  }

  const TestBatch batch(9, kDense, kEmbeddings, random, TaskCount(model));
  std::vector<float> probabilities(batch.labels.size());
  REQUIRE(
      PredictFrom(network, batch.dense(), batch.embeddings(), probabilities, TasksOf(model)).ok());
  CheckClose("prediction", probabilities, reference.Predict(batch), 1e-4);
}

DenseOptimizerConfig Sgd() { return {.learning_rate = 0.05F}; }

DenseOptimizerConfig Adam() {
  return {.kind = DenseOptimizerConfig::Kind::kAdam, .learning_rate = 0.01F};
}

TEST_CASE("each layer kind trains as the reference does") {
  const std::vector<std::vector<LayerConfig>> chains{
      {Linear(1)},
      {Linear(4), Linear(1)},
      {BatchNorm(), Linear(1)},
      {Linear(4), BatchNorm(0.5F, 1e-2F), Linear(1)},
      {Relu(), Linear(4), Relu(), Linear(1)},
      {Sigmoid(), Linear(4), Sigmoid(), Linear(1)},
      {Linear(5), Relu(), Sigmoid(), Linear(1)},
      {Gelu(), Linear(4), Gelu(), Linear(3), Gelu(), Sigmoid(), Linear(1)},
  };
  for (size_t i = 0; i < chains.size(); ++i) {
    CAPTURE(i);
    Random random(i + 1);
    CompareTraining(Chain(chains[i]), Sgd(), false, random);
  }
}

TEST_CASE("interactions train as the reference does") {
  // Dense and embeddings together are three vectors of three.
  const std::vector<std::vector<LayerConfig>> chains{
      {Dot(3), Linear(1)},
      {Linear(8), Dot(2), Relu(), Linear(1)},
      {Fm(3), Linear(1)},
      {Linear(5), Fm(1), Linear(1)},
      {Cross(), Linear(1)},
      {Cross(2), Linear(1)},
      {Cross(), Cross(2), Cross(), Linear(3), Relu(), Linear(1)},
      {Relu(), Cross(), BatchNorm(), Cross(4), Linear(1)},
      {Sum()},
      {Linear(4), Sum()},
      {Linear(6), Sum(3), Sigmoid(), Linear(1)},
  };
  for (size_t i = 0; i < chains.size(); ++i) {
    CAPTURE(i);
    Random random(i + 100);
    CompareTraining(Chain(chains[i]), Sgd(), false, random);
  }
}

TEST_CASE("activations, norms and fusions train as the reference does") {
  using Kind = LayerConfig::Kind;
  const std::vector<std::vector<LayerConfig>> chains{
      {Plain(Kind::kSilu), Linear(4), Plain(Kind::kSilu), Linear(1)},
      {Plain(Kind::kTanh), Linear(4), Plain(Kind::kTanh), Linear(1)},
      {Linear(5), Plain(Kind::kGate), Linear(1)},
      {Plain(Kind::kPrelu), Linear(5), Plain(Kind::kPrelu), Linear(1)},
      {Dice(0.3F, 1e-2F), Linear(5), Dice(0.1F, 1e-2F), BatchNorm(), Linear(1)},
      {LayerNorm(1e-2F), Linear(17), LayerNorm(1e-2F), Linear(1)},
      {Plain(Kind::kProduct, 3), Linear(8), Plain(Kind::kProduct, 2), Linear(1)},
      {Linear(12), Plain(Kind::kBilinear, 3), Linear(1)},
      {Linear(10), Plain(Kind::kBilinear, 1), Linear(3), Linear(1)},
      {Plain(Kind::kJoint, 3), Sum()},
      {Linear(5), Plain(Kind::kSoftmax), Linear(1)},
      {Plain(Kind::kL2Norm), Linear(17), Plain(Kind::kL2Norm), Linear(1)},
      {Linear(9), Plain(Kind::kMix, 3), Relu(), Linear(1)},
  };
  for (size_t i = 0; i < chains.size(); ++i) {
    CAPTURE(i);
    Random random(i + 300);
    CompareTraining(Chain(chains[i]), Sgd(), false, random);
  }
}

TEST_CASE("fusions of towers, some without an input gradient, train as the reference does") {
  Random random(6);
  CompareTraining(Fusions(), Sgd(), false, random);
  CompareTraining(Fusions(), Adam(), true, random);
  using Kind = LayerConfig::Kind;
  const ModelConfig numbers{
      .towers = {{"dice", {"dense"}, {Dice(), Linear(3)}},
                 {"prelu", {"dense"}, {Plain(Kind::kPrelu), Linear(3)}},
                 {"norm", {"dense"}, {LayerNorm(1e-2F), Linear(3)}},
                 {"shares", {"dense"}, {Plain(Kind::kL2Norm), Plain(Kind::kSoftmax)}},
                 {"pair", {"dense"}, {Linear(2), Plain(Kind::kBilinear, 1)}},
                 {"mix", {"shares", "dice", "prelu", "norm"}, {Plain(Kind::kMix, 3)}},
                 {"top", {"mix", "pair", "embeddings"}, {Linear(1)}}}};
  CompareTraining(numbers, Sgd(), false, random);
}

TEST_CASE("cross layers over dense columns alone, and beside others, train as the reference does") {
  Random random(5);
  const ModelConfig model{.towers = {
                              {"numbers", {"dense"}, {Cross(1), Cross()}},
                              {"cross", {"embeddings", "numbers"}, {Cross(2), Cross(2)}},
                              {"top", {"cross", "embeddings", "dense"}, {Linear(1)}},
                          }};
  CompareTraining(model, Sgd(), false, random);
}

TEST_CASE("towers that read single features, in part the same, train as the reference does") {
  const std::vector<ModelConfig> models{
      {.towers = {{"first", {"embeddings.b"}, {Sum()}},
                  {"both", {"embeddings.b", "embeddings.a"}, {Fm(3)}},
                  {"all", {"embeddings", "dense"}, {Linear(2)}},
                  {"top", {"first", "both", "all", "embeddings.a"}, {Sum()}}}},
      {.towers = {{"top", {"embeddings.b", "dense"}, {Linear(1)}}}},
      {.towers = {{"top", {"embeddings.a", "dense", "embeddings.b"}, {Dot(3), Linear(1)}}}},
      {.towers = {{"early", {"embeddings"}, {Linear(2)}},
                  {"top", {"early", "embeddings.a"}, {Linear(1)}}}},
  };
  for (size_t i = 0; i < models.size(); ++i) {
    CAPTURE(i);
    Random random(i + 200);
    CompareTraining(models[i], Sgd(), false, random);
  }
}

TEST_CASE("each loss trains as the reference does") {
  using Kind = LossConfig::Kind;
  for (const LossConfig loss :
       {LossConfig{.positive_weight = 3.5F}, LossConfig{.positive_weight = 0.25F},
        LossConfig{.positive_weight = 2.0F, .label_smoothing = 0.3F},
        LossConfig{.kind = Kind::kFocal}, LossConfig{.kind = Kind::kFocal, .gamma = 0.0F},
        LossConfig{.kind = Kind::kFocal, .positive_weight = 2.0F, .gamma = 0.5F},
        LossConfig{.kind = Kind::kSquaredError}, LossConfig{.kind = Kind::kPoisson}}) {
    for (const bool weighted : {false, true}) {
      CAPTURE(NameOf(loss.kind), loss.positive_weight, loss.gamma, weighted);
      Random random(7);
      ModelConfig model = Chain({Linear(4), Sigmoid(), Linear(1)});
      model.loss = loss;
      CompareTraining(model, Sgd(), false, random, weighted);
    }
  }
}

TEST_CASE("several tasks train as the reference does") {
  Random random(8);
  CompareTraining(TwoTasks(), Sgd(), false, random);
  CompareTraining(TwoTasks(), Adam(), true, random);
  ModelConfig side_by_side = Chain({Linear(4), Relu(), Linear(3)});
  side_by_side.tasks = {
      {.weight = 1.0F}, {.weight = 0.0F}, {.weight = 0.5F, .loss = {.positive_weight = 3.0F}}};
  CompareTraining(side_by_side, Sgd(), false, random);
  side_by_side.tasks[1] = {.weight = 0.5F, .loss = {.kind = LossConfig::Kind::kSquaredError}};
  side_by_side.tasks[2].loss = {.kind = LossConfig::Kind::kPoisson};
  CompareTraining(side_by_side, Sgd(), false, random, /*weighted=*/true);
}

TEST_CASE("towers that share inputs train as the reference does") {
  Random random(11);
  CompareTraining(SharedInputs(), Sgd(), false, random);
  CompareTraining(SharedInputs(), Adam(), true, random);
}

TEST_CASE("random models train as the reference does") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const ModelConfig model = RandomModel(random);
    if (seed % 2 == 0) {
      CompareTraining(model, Sgd(), false, random);
    } else {
      // The gradient of a bias before batch norm is only rounding error, which Adam would amplify.
      CompareTraining(model, Adam(), true, random);
    }
  }
}

}  // namespace
}  // namespace simurgh::testing
