#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/test_backend.h"

// The CUDA backend's network on a device, or on a simulated one, compared with the CPU backend.
namespace simurgh::testing {
namespace {

TrainingRun TrainOnDevice(const DenseNetworkOptions& options, int steps,
                          const ModelConfig& model = EveryLayer()) {
  auto network = CreateTestNetwork(model, options);
  INFO(std::string(network.status().message()));
  REQUIRE(network.ok());
  return Train(**network, steps);
}

TEST_CASE("training agrees with the CPU backend for every optimizer") {
  for (const DenseOptimizerConfig& config : RunOptimizers()) {
    CAPTURE(static_cast<int>(config.kind), config.momentum, config.max_gradient_norm);
    CheckSameTraining(TrainOnDevice(RunOptions(config), 12), ExpectAsOnCpu(RunOptions(config), 12));
  }
}

// bf16 rounds each value to 8 bits, a relative error of at most 2^-8 (f16: 11 bits, an eighth of
// that). Over ten layers, forward and backward, the errors add up like random ones. tf32 rounds the
// operands of products to 11 bits.
TEST_CASE("a step in tf32, in bf16 and in f16 differs from one in f32 by its rounding") {
  DenseNetworkOptions options = RunOptions({});
  const ModelConfig model = EveryLayer(Sigmoid());
  const TrainingRun expected = TrainOnCpu(options, 1, model);
  const auto error_in = [&](ComputePrecision precision) {
    options.precision = precision;
    const TrainingRun run = TrainOnDevice(options, 1, model);
    CHECK(run.losses[0] == Approx(expected.losses[0]).epsilon(0.01));
    return RelativeError(run.embedding_gradient, expected.embedding_gradient);
  };
  CHECK(error_in(ComputePrecision::kF32) < 1e-5);
  CHECK(error_in(ComputePrecision::kTf32) < 4e-3);
  for (const auto& [precision, unit] :
       {std::pair(ComputePrecision::kBf16, 1.0), {ComputePrecision::kF16, 0.125}}) {
    const double error = error_in(precision);
    CAPTURE(unit, error);
    CHECK(error < 0.02 * unit);
    CHECK(error > 1e-4 * unit);
  }
}

TEST_CASE("training in 16 bits learns as training in f32 does") {
  DenseNetworkOptions options =
      RunOptions({.kind = DenseOptimizerConfig::Kind::kAdam, .epsilon = 1e-3F});
  const TrainingRun expected = TrainOnCpu(options, 40);
  for (const ComputePrecision precision : {ComputePrecision::kBf16, ComputePrecision::kF16}) {
    CAPTURE(static_cast<int>(precision));
    options.precision = precision;
    const TrainingRun actual = TrainOnDevice(options, 40);
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      CHECK(actual.losses[i] == Approx(expected.losses[i]).margin(0.05));
    }
    CHECK(actual.losses.back() < 0.8 * actual.losses.front());
    CHECK(RelativeError(actual.predictions, expected.predictions) < 0.1);
  }
}

TEST_CASE("a prediction between a pass and its step changes neither the next prediction nor pass") {
  for (const ComputePrecision precision : {ComputePrecision::kF32, ComputePrecision::kBf16}) {
    CAPTURE(static_cast<int>(precision));
    DenseNetworkOptions options = RunOptions({.average_decay = 0.5F});
    options.precision = precision;
    const auto train = [&](bool predicts) {
      auto created = CreateTestNetwork(EveryLayer(), options);
      REQUIRE(created.ok());
      DenseNetwork& network = **created;
      Random random(5);
      const TestBatch batch(20, options.inputs.dense_width, options.inputs.embedding_width, random);
      std::vector<float> gradients(batch.embedding_values.size());
      std::vector<float> probabilities(batch.rows);
      std::vector<float> values;
      const auto predict = [&] {
        REQUIRE(PredictFrom(network, batch.dense(), batch.embeddings(), probabilities).ok());
        values.insert(values.end(), probabilities.begin(), probabilities.end());
      };
      for (int step = 0; step < 4; ++step) {
        REQUIRE(ComputeGradients(network, batch.dense(), batch.embeddings(), batch.labels,
                                 {gradients.data(), batch.rows, options.inputs.embedding_width},
                                 probabilities)
                    .ok());
        values.insert(values.end(), gradients.begin(), gradients.end());
        const size_t size = values.size();
        if (predicts) predict();
        values.resize(size);
        REQUIRE(network.ApplyGradients(0.5F).ok());
        if (step % 2 == 1) predict();
      }
      return values;
    };
    CHECK(SameBits(train(true), train(false)));
  }
}

TEST_CASE("batches of more sizes than graphs are cached train as on the CPU") {
  const ModelConfig model = Chain({Linear(70), Relu(), Linear(9), Sigmoid(), Linear(1)});
  DenseNetworkOptions options;
  options.inputs = TestInputs(3);
  auto created = CreateTestNetwork(model, options);
  auto expected = CreateCpuNetwork(model, options);
  REQUIRE(created.ok());
  REQUIRE(expected.ok());
  for (int pass = 0; pass < 3; ++pass) {
    for (size_t rows = 1; rows < 160; rows += 2) {
      Random random(rows);
      const TestBatch batch(rows, 3, 6, random);
      std::vector<float> gradients[2] = {std::vector<float>(rows * 6),
                                         std::vector<float>(rows * 6)};
      std::vector<float> probabilities[2] = {std::vector<float>(rows), std::vector<float>(rows)};
      DenseNetwork* const networks[2] = {created->get(), expected->get()};
      for (int i = 0; i < 2; ++i) {
        const auto result =
            ComputeGradients(*networks[i], batch.dense(), batch.embeddings(), batch.labels,
                             {gradients[i].data(), rows, 6}, probabilities[i]);
        REQUIRE(result.ok());
        REQUIRE(networks[i]->ApplyGradients(0.01F).ok());
      }
      CAPTURE(pass, rows);
      CheckNear(probabilities[0], probabilities[1], 1e-4);
      CheckNear(gradients[0], gradients[1], 1e-4);
    }
  }
}

}  // namespace
}  // namespace simurgh::testing
