#include <catch2/catch.hpp>

#include "tests/unit/nn/cuda/host_backend.h"
#include "tests/unit/nn/cuda/training_run.h"

// The CUDA backend's network on a simulated device, compared with the CPU backend.
namespace simurgh::testing {
namespace {

TrainingRun TrainOnHost(const DenseNetworkOptions& options, const HostExecutor::Options& executor,
                        int steps, const ModelConfig& model = EveryLayer()) {
  auto network = CreateHostNetwork(model, options, executor);
  REQUIRE(network.ok());
  return Train(**network, steps);
}

DenseNetworkOptions AdamOptions() {
  return RunOptions({.kind = DenseOptimizerConfig::Kind::kAdam, .epsilon = 1e-3F});
}

TEST_CASE("training agrees with the CPU backend for every optimizer") {
  for (const DenseOptimizerConfig& config : RunOptimizers()) {
    CAPTURE(static_cast<int>(config.kind), config.momentum, config.max_gradient_norm);
    CheckSameTraining(TrainOnHost(RunOptions(config), {}, 12),
                      ExpectAsOnCpu(RunOptions(config), 12));
  }
}

TEST_CASE("products have no side of one, and rows of whole words of 16 bytes") {
  DenseNetworkOptions options;
  options.inputs = TestInputs(3);
  for (const ModelConfig& model : {Chain({Linear(8), Relu(), Linear(1)}), TwoTasks()}) {
    std::vector<FakeCublasLt::Product> products;
    const bool two_tasks = model.tasks.size() == 2;
    auto network = CreateHostNetwork(model, options, {.products = &products});
    REQUIRE(network.ok());
    Random random(1);
    const TestBatch batch(6, 3, 6, random, two_tasks ? 2 : 1);
    std::vector<float> gradient(6 * 6);
    std::vector<float> probabilities(two_tasks ? 12 : 6);
    REQUIRE(ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                             {gradient.data(), 6, 6}, probabilities)
                .ok());
    REQUIRE_FALSE(products.empty());
    for (const FakeCublasLt::Product& product : products) {
      CHECK(product.rows > 1);
      // The inputs are 9 wide.
      CHECK(product.rows != 9);
    }
  }
}

TEST_CASE("neither fused epilogues nor the order of a kernel's calls change a training run") {
  const TrainingRun plain = TrainOnHost(AdamOptions(), {.fuse = false}, 8);
  const TrainingRun reversed = TrainOnHost(AdamOptions(), {.fuse = false, .reverse = true}, 8);
  CHECK(SameBits(plain.parameters, reversed.parameters));
  CHECK(SameBits(plain.state, reversed.state));
  CHECK(SameBits(plain.embedding_gradient, reversed.embedding_gradient));
  CHECK(plain.losses == reversed.losses);
  // Sums biases' gradients in another order.
  const ExpectedRun expected = ExpectAsOnCpu(AdamOptions(), 8);
  CheckSameTraining(plain, expected);
  CheckSameTraining(TrainOnHost(AdamOptions(), {.fuse = true}, 8), expected);
}

// bf16 rounds each value to 8 bits, a relative error of at most 2^-8 (f16: 11 bits, an eighth of
// that). Over ten layers, forward and backward, the errors add up like random ones.
TEST_CASE("a step in 16 bits differs from one in f32 by its rounding") {
  DenseNetworkOptions options = RunOptions({});
  const ModelConfig model = EveryLayer(Sigmoid());
  const TrainingRun expected = TrainOnCpu(options, 1, model);
  for (const bool is_f16 : {false, true}) {
    options.precision = is_f16 ? ComputePrecision::kF16 : ComputePrecision::kBf16;
    const double unit = is_f16 ? 0.125 : 1.0;
    for (const bool fuse : {true, false}) {
      CAPTURE(is_f16, fuse);
      const TrainingRun actual = TrainOnHost(options, {.fuse = fuse}, 1, model);
      CHECK(actual.losses[0] == Approx(expected.losses[0]).epsilon(0.01 * unit));
      const double error = RelativeError(actual.embedding_gradient, expected.embedding_gradient);
      CAPTURE(error);
      CHECK(error < 0.02 * unit);
      CHECK(error > 1e-4 * unit);
    }
  }
}

TEST_CASE("training in 16 bits learns as training in f32 does") {
  DenseNetworkOptions options = AdamOptions();
  const TrainingRun expected = TrainOnCpu(options, 40);
  for (const ComputePrecision precision : {ComputePrecision::kBf16, ComputePrecision::kF16}) {
    CAPTURE(static_cast<int>(precision));
    options.precision = precision;
    const TrainingRun actual = TrainOnHost(options, {}, 40);
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      CHECK(actual.losses[i] == Approx(expected.losses[i]).margin(0.05));
    }
    CHECK(actual.losses.back() < 0.8 * actual.losses.front());
    CHECK(RelativeError(actual.predictions, expected.predictions) < 0.1);
  }
}

}  // namespace
}  // namespace simurgh::testing
