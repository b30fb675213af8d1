#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include "nn/dense_network.h"
#include "tests/support/allocation_failure.h"
#include "tests/support/skip.h"
#include "tests/unit/nn/test_backend.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDense = 5;
constexpr size_t kEmbeddings = 24;
constexpr float kRate = 0.01F;

// Wide enough that several threads share a layer, with every layer kind and a shared input.
ModelConfig WideModel() {
  return {.towers = {
              {.name = "numbers", .inputs = {"dense"}, .layers = {Linear(16), BatchNorm()}},
              {.name = "ids",
               .inputs = {"embeddings"},
               .layers = {Linear(128), BatchNorm(), Relu(), Linear(64), Sigmoid()}},
              {.name = "pairs", .inputs = {"embeddings", "numbers"}, .layers = {Dot(8)}},
              {.name = "cross", .inputs = {"embeddings", "dense"}, .layers = {Cross(), Cross(5)}},
              {.name = "top",
               .inputs = {"numbers", "embeddings", "ids", "pairs", "cross"},
               .layers = {Linear(200), Relu(), Linear(1)}},
          }};
}

DenseNetworkOptions Options(size_t dense_width, size_t embedding_width,
                            DenseOptimizerConfig optimizer) {
  DenseNetworkOptions options;
  options.inputs = {.dense_width = dense_width, .embedding_width = embedding_width};
  options.optimizer = optimizer;
  return options;
}

std::unique_ptr<DenseNetwork> MakeNetwork(const ModelConfig& model,
                                          const DenseNetworkOptions& options) {
  auto network = CreateTestNetwork(model, options);
  REQUIRE(network.ok());
  return std::move(*network);
}

std::unique_ptr<DenseNetwork> MakeNetwork(uint32_t threads = 1, uint64_t seed = 3) {
  DenseNetworkOptions options =
      Options(kDense, kEmbeddings, {.kind = DenseOptimizerConfig::Kind::kAdam});
  options.threads = threads;
  options.seed = seed;
  return MakeNetwork(WideModel(), options);
}

TestBatch MakeBatch(size_t rows, uint64_t seed) {
  Random random(seed);
  return {rows, kDense, kEmbeddings, random};
}

std::vector<float> Copy(std::span<const float> values) { return {values.begin(), values.end()}; }

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

struct StepOutput {
  BatchResult result;
  std::vector<float> embedding_gradient;
  std::vector<float> probabilities;
};

StepOutput ForwardBackward(DenseNetwork& network, const TestBatch& batch,
                           const RankStep& step = {}) {
  StepOutput output;
  output.embedding_gradient.resize(batch.rows * kEmbeddings);
  output.probabilities.resize(batch.rows);
  const auto result = ComputeGradients(network, batch.dense(), batch.embeddings(), batch.labels,
                                       {output.embedding_gradient.data(), batch.rows, kEmbeddings},
                                       output.probabilities, step);
  REQUIRE(result.ok());
  output.result = *result;
  return output;
}

StepOutput Train(DenseNetwork& network, const TestBatch& batch) {
  StepOutput output = ForwardBackward(network, batch);
  REQUIRE(network.ApplyGradients(kRate).ok());
  return output;
}

void CheckSameOutput(const StepOutput& a, const StepOutput& b) {
  CHECK(a.result.loss == b.result.loss);
  CHECK(SameBits(a.embedding_gradient, b.embedding_gradient));
  CHECK(SameBits(a.probabilities, b.probabilities));
}

TEST_CASE("two networks agree bit for bit, with one thread and with two") {
  for (const uint32_t threads : {1U, 2U}) {
    CAPTURE(threads);
    const auto first = MakeNetwork(threads);
    const std::vector<std::byte> displaced(
        100'003);  // Changes the addresses of the second network.
    const auto second = MakeNetwork(threads);
    for (const size_t rows : {128, 128, 37, 128, 1, 300}) {
      const TestBatch batch = MakeBatch(rows, rows);
      CheckSameOutput(Train(*first, batch), Train(*second, batch));
      CHECK(SameBits(first->gradients(), second->gradients()));
      CHECK(SameBits(first->parameters(), second->parameters()));
      CHECK(SameBits(first->state(), second->state()));
    }
  }
}

TEST_CASE("the seed determines the initial weights") {
  CHECK(SameBits(MakeNetwork(1, 3)->parameters(), MakeNetwork(2, 3)->parameters()));
  CHECK_FALSE(SameBits(MakeNetwork(1, 3)->parameters(), MakeNetwork(1, 4)->parameters()));
}

TEST_CASE("the caller's strides and alignment change no bit") {
  const TestBatch batch = MakeBatch(96, 1);
  const auto plain = MakeNetwork();
  const StepOutput expected = Train(*plain, batch);

  constexpr size_t kStride = 61;
  for (const size_t offset : {0, 1, 3, 7}) {
    CAPTURE(offset);
    std::vector<float> inputs(96 * kStride + offset, std::numeric_limits<float>::quiet_NaN());
    const MatrixView<float> wide(inputs.data() + offset, 96, kStride);
    const MatrixView<float> dense = wide.Columns(2, kDense);
    for (size_t r = 0; r < 96; ++r) std::ranges::copy(batch.dense().row(r), dense.row(r).begin());
    const auto network = MakeNetwork();
    std::vector<float> gradient(96 * kEmbeddings);
    std::vector<float> probabilities(96);
    const auto result = ComputeGradients(*network, dense, batch.embeddings(), batch.labels,
                                         {gradient.data(), 96, kEmbeddings}, probabilities);
    REQUIRE(result.ok());
    CHECK(result->loss == expected.result.loss);
    CHECK(SameBits(probabilities, expected.probabilities));
    CHECK(SameBits(gradient, expected.embedding_gradient));
    REQUIRE(network->ApplyGradients(kRate).ok());
    CHECK(SameBits(network->parameters(), plain->parameters()));
  }
}

TEST_CASE("a batch's result does not depend on the sizes seen before") {
  const auto fresh = MakeNetwork();
  const auto used = MakeNetwork();
  for (const size_t rows : {1, 700, 3, 64, 65}) ForwardBackward(*used, MakeBatch(rows, rows));
  std::vector<float> many(2000);
  const TestBatch large = MakeBatch(2000, 9);
  REQUIRE(PredictFrom(*used, large.dense(), large.embeddings(), many).ok());

  const TestBatch batch = MakeBatch(50, 2);
  CheckSameOutput(Train(*fresh, batch), Train(*used, batch));
  CHECK(SameBits(fresh->parameters(), used->parameters()));
  CHECK(SameBits(fresh->state(), used->state()));
}

TEST_CASE("a step that is not applied changes nothing") {
  const auto network = MakeNetwork();
  Train(*network, MakeBatch(64, 1));
  const std::vector<float> parameters = Copy(network->parameters());
  const std::vector<float> state = Copy(network->state());
  ForwardBackward(*network, MakeBatch(64, 2));
  CHECK(SameBits(network->parameters(), parameters));
  CHECK(SameBits(network->state(), state));
}

TEST_CASE("prediction changes nothing, even between gradients and step") {
  const auto network = MakeNetwork();
  const auto undisturbed = MakeNetwork();
  const TestBatch batch = MakeBatch(64, 1);
  const TestBatch other = MakeBatch(80, 2);
  ForwardBackward(*network, batch);
  const std::vector<float> parameters = Copy(network->parameters());
  const std::vector<float> gradients = Copy(network->gradients());
  const std::vector<float> state = Copy(network->state());
  std::vector<float> first(80);
  std::vector<float> second(80);
  REQUIRE(PredictFrom(*network, other.dense(), other.embeddings(), first).ok());
  REQUIRE(PredictFrom(*network, other.dense(), other.embeddings(), second).ok());
  CHECK(SameBits(first, second));
  CHECK(SameBits(network->parameters(), parameters));
  CHECK(SameBits(network->gradients(), gradients));
  CHECK(SameBits(network->state(), state));

  REQUIRE(network->ApplyGradients(kRate).ok());
  Train(*undisturbed, batch);
  CHECK(SameBits(network->parameters(), undisturbed->parameters()));
  CHECK(SameBits(network->state(), undisturbed->state()));
}

TEST_CASE("prediction accepts a batch without samples") {
  const auto network = MakeNetwork();
  const TestBatch empty = MakeBatch(0, 1);
  CHECK(PredictFrom(*network, empty.dense(), empty.embeddings(), {}).ok());
}

TEST_CASE("a value that is not finite is reported and cannot be applied") {
  const float bad_values[] = {std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity()};
  for (const float bad : bad_values) {
    for (const bool in_dense : {true, false}) {
      CAPTURE(bad, in_dense);
      const auto network = MakeNetwork();
      const std::vector<float> parameters = Copy(network->parameters());
      const std::vector<float> state = Copy(network->state());
      TestBatch batch = MakeBatch(64, 1);
      (in_dense ? batch.dense_values : batch.embedding_values)[17] = bad;
      CHECK_FALSE(ForwardBackward(*network, batch).result.finite);
      CHECK(network->ApplyGradients(kRate).code() == absl::StatusCode::kFailedPrecondition);
      CHECK(SameBits(network->parameters(), parameters));
      CHECK(SameBits(network->state(), state));
      CHECK(Train(*network, MakeBatch(64, 2)).result.finite);  // The next batch is clean again.
    }
  }
}

TEST_CASE("an infinite gradient is reported although the loss is finite") {
  // logit = (dense w0 + embedding w1 + w2) w3 + w4, at weights and inputs that leave the logit 0.
  struct Case {
    float dense, w0, w1;
  };
  const auto [dense, w0, w1] = GENERATE(Case{1e30F, 0.0F, 0.0F},   // d loss / d w0 overflows,
                                        Case{0.0F, 0.0F, 1e30F});  // d loss / d embedding.
  const auto network = MakeNetwork(Chain({Linear(1), Linear(1)}), Options(1, 1, {}));
  std::ranges::copy(std::vector<float>{w0, w1, 0.0F, 1e30F, 0.0F}, network->parameters().begin());
  const float embedding = 0.0F;
  float gradient = 0.0F;
  float probability = 0.0F;
  const float label = 1.0F;
  const auto result = ComputeGradients(*network, {&dense, 1, 1}, {&embedding, 1, 1}, {&label, 1},
                                       {&gradient, 1, 1}, {&probability, 1});
  REQUIRE(result.ok());
  CHECK(probability == 0.5F);
  CHECK(std::isfinite(result->loss));
  CHECK_FALSE(result->finite);
}

TEST_CASE("a batch too large for memory is an error, and the next one works") {
  if (!kAllocationsThrow) SIMURGH_SKIP("the sanitizer ends the process when an allocation fails");
  std::vector<LayerConfig> layers{Linear(65'536)};
  layers.resize(33, Relu());
  layers.push_back(Linear(1));
  const auto network = MakeNetwork(Chain(layers), Options(1, 1, {}));
  const size_t rows =
      size_t{1} << 24;  // Times 2^21 columns: 2^47 bytes, more than can be addressed.
  const std::vector<float> inputs(rows, 1.0F);
  std::vector<float> probabilities(rows);
  const Status status =
      PredictFrom(*network, {inputs.data(), rows, 1}, {inputs.data(), rows, 1}, probabilities);
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(
      PredictFrom(*network, {inputs.data(), 1, 1}, {inputs.data(), 1, 1}, {probabilities.data(), 1})
          .ok());
  CHECK(probabilities[0] > 0.0F);
}

TEST_CASE("gradients are applied once, and only if computed") {
  const auto network = MakeNetwork();
  CHECK(network->ApplyGradients(kRate).code() == absl::StatusCode::kFailedPrecondition);
  Train(*network, MakeBatch(8, 1));
  CHECK(network->ApplyGradients(kRate).code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a step whose caller sums uses the gradients as the caller left them") {
  const auto network = MakeNetwork(Chain({Linear(1)}), Options(kDense, kEmbeddings, {}));
  ForwardBackward(*network, MakeBatch(8, 1), {.on_gradients = [](size_t, size_t) {}});
  const std::vector<float> before = Copy(network->parameters());
  std::ranges::fill(network->gradients(), 2.0F);
  REQUIRE(network->ApplyGradients(0.5F).ok());
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(network->parameters()[i] == before[i] - 0.5F * 2.0F);
  }
}

TEST_CASE("a model that reads no embeddings gives them a zero gradient") {
  const auto network = MakeNetwork({.towers = {{"top", {"dense"}, {BatchNorm(), Linear(1)}}}},
                                   Options(kDense, kEmbeddings, {}));
  const StepOutput output = ForwardBackward(*network, MakeBatch(8, 1));
  CHECK(output.result.finite);
  CHECK(output.embedding_gradient == std::vector<float>(8 * kEmbeddings, 0.0F));
}

TEST_CASE("prediction uses the averaged weights if any") {
  const auto plain = MakeNetwork();
  DenseNetworkOptions options = Options(
      kDense, kEmbeddings, {.kind = DenseOptimizerConfig::Kind::kAdam, .average_decay = 0.9F});
  options.seed = 3;
  const auto averaged = MakeNetwork(WideModel(), options);
  for (uint64_t step = 0; step < 5; ++step) {
    CheckSameOutput(Train(*plain, MakeBatch(64, step)), Train(*averaged, MakeBatch(64, step)));
  }
  CHECK(SameBits(plain->parameters(), averaged->parameters()));
  const size_t count = plain->parameters().size();
  REQUIRE(averaged->state().size() == plain->state().size() + 1 + count);

  const TestBatch batch = MakeBatch(32, 99);
  std::vector<float> predicted(32);
  std::vector<float> expected(32);
  REQUIRE(PredictFrom(*averaged, batch.dense(), batch.embeddings(), predicted).ok());
  REQUIRE(PredictFrom(*plain, batch.dense(), batch.embeddings(), expected).ok());
  CHECK_FALSE(SameBits(predicted, expected));
  std::ranges::copy(averaged->state().last(count), plain->parameters().begin());
  REQUIRE(PredictFrom(*plain, batch.dense(), batch.embeddings(), expected).ok());
  CHECK(SameBits(predicted, expected));
}

TEST_CASE("training learns a separable rule") {
  const auto network = MakeNetwork();
  double loss = 0;
  for (uint64_t step = 0; step < 60; ++step) {
    TestBatch batch = MakeBatch(128, step);
    for (size_t r = 0; r < batch.rows; ++r) {
      batch.labels[r] = batch.dense()(r, 0) + batch.embeddings()(r, 3) > 0 ? 1.0F : 0.0F;
    }
    loss = Train(*network, batch).result.loss;
  }
  CHECK(loss < 0.3);
}

}  // namespace
}  // namespace simurgh::testing
