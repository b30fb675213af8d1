#include <catch2/catch.hpp>

#include "nn/cuda/cuda_network.h"
#include "tests/unit/nn/cuda/training_run.h"

// The network on a device compared with the CPU backend, and features of devices only.
namespace simurgh::testing {
namespace {

TrainingRun TrainOnDevice(const DenseNetworkOptions& options, const cuda::CudaTuning& tuning,
                          int steps, const ModelConfig& model = EveryLayer()) {
  auto created = cuda::CreateCudaNetwork(model, options, tuning);
  INFO(created.status().message());
  REQUIRE(created.ok());
  return Train(*created->network, steps);
}

DenseNetworkOptions AdamOptions() {
  return RunOptions({.kind = DenseOptimizerConfig::Kind::kAdam, .epsilon = 1e-3F});
}

TEST_CASE("training on a device agrees with the CPU backend for every optimizer") {
  for (const DenseOptimizerConfig& config : RunOptimizers()) {
    CAPTURE(static_cast<int>(config.kind), config.momentum, config.max_gradient_norm);
    CheckSameTraining(TrainOnDevice(RunOptions(config), {.poison = true}, 12),
                      ExpectAsOnCpu(RunOptions(config), 12));
  }
}

// tf32 rounds operands of products to 11 bits, bf16 everything to 8, f16 to 11; see
// precision_test.cc.
TEST_CASE("a step in tf32, in bf16 and in f16 differs from one in f32 by its rounding") {
  DenseNetworkOptions options = RunOptions({});
  const ModelConfig model = EveryLayer(Sigmoid());
  const TrainingRun expected = TrainOnCpu(options, 1, model);
  const auto error_in = [&](ComputePrecision precision) {
    options.precision = precision;
    const TrainingRun run = TrainOnDevice(options, {.poison = true}, 1, model);
    CHECK(run.losses[0] == Approx(expected.losses[0]).epsilon(0.01));
    return RelativeError(run.embedding_gradient, expected.embedding_gradient);
  };
  CHECK(error_in(ComputePrecision::kF32) < 1e-5);
  CHECK(error_in(ComputePrecision::kTf32) < 4e-3);
  CHECK(error_in(ComputePrecision::kBf16) < 0.02);
  CHECK(error_in(ComputePrecision::kF16) < 4e-3);
}

TEST_CASE("training in 16 bits on a device learns as training in f32 does") {
  DenseNetworkOptions options = AdamOptions();
  const TrainingRun expected = TrainOnCpu(options, 40);
  for (const ComputePrecision precision : {ComputePrecision::kBf16, ComputePrecision::kF16}) {
    CAPTURE(static_cast<int>(precision));
    options.precision = precision;
    const TrainingRun actual = TrainOnDevice(options, {.poison = true}, 40);
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      CHECK(actual.losses[i] == Approx(expected.losses[i]).margin(0.05));
    }
    CHECK(actual.losses.back() < 0.8 * actual.losses.front());
  }
}

TEST_CASE("batches of more sizes than graphs are cached train as on the CPU") {
  const ModelConfig model = Chain({Linear(70), Relu(), Linear(9), Sigmoid(), Linear(1)});
  DenseNetworkOptions options;
  options.inputs = TestInputs(3);
  auto created = cuda::CreateCudaNetwork(model, options, {});
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
      DenseNetwork* const networks[2] = {created->network.get(), expected->get()};
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
