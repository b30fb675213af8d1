// Two towers with the loss in_batch_softmax on every backend.

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "nn/dense_network.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/test_backend.h"
#include "tests/unit/nn/test_models.h"
#include "tests/unit/nn/two_tower_run.h"

namespace simurgh::testing {
namespace {

// Keys of a batch's samples: each its own.
struct OwnKeys {
  explicit OwnKeys(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      users.push_back(i);
      items.push_back(1'000'000 + i);
    }
  }
  RankStep step() const { return {.user_keys = users, .item_keys = items}; }

  std::vector<uint64_t> users;
  std::vector<uint64_t> items;
};

TEST_CASE("Two towers train and predict as on the CPU") {
  using Correction = LossConfig::Correction;
  for (const TwoTowerCase& run : {TwoTowerCase{.correction = Correction::kNone},
                                  {.correction = Correction::kLogQ},
                                  {.correction = Correction::kNone, .has_weights = true},
                                  {.correction = Correction::kLogQ, .uniform = 12},
                                  {.correction = Correction::kNone, .uniform = 5},
                                  {.has_weights = true, .uniform = 9}}) {
    CAPTURE(static_cast<int>(run.correction), run.has_weights, run.uniform);
    const auto on_cpu = CreateCpuNetwork(run.model(), run.options());
    const auto network = CreateTestNetwork(run.model(), run.options());
    REQUIRE(on_cpu.ok());
    REQUIRE(network.ok());
    CheckSameRun(TrainTwoTowers(**network, run, 16), TrainTwoTowers(**on_cpu, run, 16), 2e-4);
  }
}

TEST_CASE("Two towers train on a batch of several blocks of scores") {
  const TwoTowerCase run{.has_weights = true, .uniform = 400};
  Random random(9);
  const TwoTowerBatch batch(run, 0, 4'700, random);
  std::vector<float> found[2];
  double losses[2] = {};
  for (const bool on_cpu : {false, true}) {
    const auto network = on_cpu ? CreateCpuNetwork(run.model(), run.options())
                                : CreateTestNetwork(run.model(), run.options());
    REQUIRE(network.ok());
    std::vector<float> predictions(batch.rows);
    std::vector<float>& gradient = found[on_cpu ? 1 : 0];
    gradient.resize(batch.embedding_values.size());
    const auto result = ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                                         {gradient.data(), batch.rows, batch.embedding_width},
                                         predictions, batch.Step(0));
    REQUIRE(result.ok());
    losses[on_cpu ? 1 : 0] = result->loss;
    const auto weights = (*network)->gradients();
    gradient.insert(gradient.end(), weights.begin(), weights.end());
  }
  CHECK(losses[0] == Approx(losses[1]).epsilon(1e-4));
  CHECK(RelativeError(found[0], found[1]) < 1e-3);
}

TEST_CASE("Two towers continue after a restart to the bit") {
  const TwoTowerCase run{.uniform = 4};
  const auto first = CreateTestNetwork(run.model(), run.options());
  const auto second = CreateTestNetwork(run.model(), run.options());
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  TrainTwoTowers(**first, run, 5);
  const std::vector<float> parameters((*first)->parameters().begin(), (*first)->parameters().end());
  const std::vector<float> state((*first)->state().begin(), (*first)->state().end());
  TrainTwoTowers(**second, run, 2);
  REQUIRE((*second)->Restore(parameters, state).ok());
  const TwoTowerRun expected = TrainTwoTowers(**first, run, 5, 2);
  const TwoTowerRun actual = TrainTwoTowers(**second, run, 5, 2);
  CHECK(actual.losses == expected.losses);
  CHECK(actual.parameters == expected.parameters);
  CHECK(actual.state == expected.state);
}

TEST_CASE("Two towers predict the product of their vectors over the temperature") {
  Random random(37);
  const ModelInputs inputs = TestInputs(5);
  const TestBatch batch(9, inputs.dense_width, inputs.embedding_width, random, 1);
  std::vector<std::vector<float>> outputs;
  for (const float temperature : {1.0F, 0.25F}) {
    const auto network = CreateTestNetwork(TwoTowerModel(temperature), {.inputs = inputs});
    REQUIRE(network.ok());
    outputs.emplace_back(batch.rows);
    REQUIRE(OutputsFrom(**network, batch.dense(), batch.embeddings(), outputs.back()).ok());
    std::vector<float> predictions(batch.rows);
    REQUIRE(PredictFrom(**network, batch.dense(), batch.embeddings(), predictions,
                        TasksOf(TwoTowerModel(temperature)))
                .ok());
    CHECK(predictions == outputs.back());
    std::vector<float> trained(batch.rows);
    std::vector<float> gradient(batch.embedding_values.size());
    const OwnKeys keys(batch.rows);
    REQUIRE(ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                             {gradient.data(), batch.rows, batch.embedding_width}, trained,
                             keys.step())
                .ok());
    for (size_t i = 0; i < batch.rows; ++i) {
      CHECK(trained[i] == Approx(predictions[i]).epsilon(1e-5).margin(1e-5));
    }
  }
  for (size_t i = 0; i < batch.rows; ++i) CHECK(outputs[1][i] == 4 * outputs[0][i]);
}

TEST_CASE("Samples of one item are found, wherever they are in the batch") {
  const uint32_t threads = GENERATE(1, 3);
  for (const size_t rows : {2, 5, 97, 150, 500}) {
    CAPTURE(threads, rows);
    Random random(38);
    const ModelInputs inputs = TestInputs(5);
    TestBatch batch(rows, inputs.dense_width, inputs.embedding_width, random, 1);
    std::ranges::fill(batch.labels, 1.0F);
    for (size_t row = 1; row < rows; ++row) {
      std::copy_n(&batch.embedding_values[kTestDim], kTestDim,
                  &batch.embedding_values[row * batch.embedding_width + kTestDim]);
    }
    const auto network =
        CreateTestNetwork(TwoTowerModel(0.1F), {.inputs = inputs, .threads = threads});
    REQUIRE(network.ok());
    OwnKeys keys(rows);
    std::ranges::fill(keys.items, 7);
    std::vector<float> predictions(rows);
    std::vector<float> gradient(batch.embedding_values.size());
    const auto result =
        ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                         {gradient.data(), rows, batch.embedding_width}, predictions, keys.step());
    REQUIRE(result.ok());
    CHECK(result->loss == 0);
  }
}

TEST_CASE("Two towers learn which item is a user's") {
  Random random(39);
  const ModelInputs inputs = TestInputs(5);
  TestBatch batch(16, inputs.dense_width, inputs.embedding_width, random, 1);
  std::ranges::fill(batch.labels, 1.0F);
  DenseNetworkOptions options{.inputs = inputs};
  options.optimizer = {.kind = DenseOptimizerConfig::Kind::kAdam};
  const auto network = CreateTestNetwork(TwoTowerModel(0.2F), options);
  REQUIRE(network.ok());
  std::vector<float> predictions(batch.rows);
  std::vector<float> gradient(batch.embedding_values.size());
  std::vector<double> losses;
  const OwnKeys keys(batch.rows);
  for (size_t step = 0; step < 300; ++step) {
    const auto result = ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                                         {gradient.data(), batch.rows, batch.embedding_width},
                                         predictions, keys.step());
    REQUIRE(result.ok());
    losses.push_back(result->loss);
    REQUIRE((*network)->ApplyGradients(0.02F).ok());
  }
  CHECK(losses.front() > std::log(16.0) / 2);
  CHECK(losses.back() < losses.front() / 2);
}

}  // namespace
}  // namespace simurgh::testing
