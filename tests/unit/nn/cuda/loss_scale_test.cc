#include "nn/cuda/loss_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/test_backend.h"

// Scaled gradients in f16, on every backend that supports it.
namespace simurgh::testing {
namespace {

constexpr size_t kRows = 40;
constexpr size_t kDense = 3;
constexpr size_t kEmbeddings = kTestFeatures * kTestDim;

struct Step {
  BatchResult result;
  std::vector<float> embedding_gradient;
  std::vector<float> gradients;
};

// positive_weight: makes gradients as large as it is, since all labels are 1.
ModelConfig WeightedModel(float positive_weight) {
  ModelConfig model = Chain({Linear(24), BatchNorm(), Gelu(), Linear(9), Sigmoid(), Linear(1)});
  model.loss.positive_weight = positive_weight;
  return model;
}

DenseNetworkOptions OptionsIn(ComputePrecision precision) {
  DenseNetworkOptions options;
  options.inputs = TestInputs(kDense);
  options.precision = precision;
  return options;
}

Step RunStep(DenseNetwork& network, const RankStep& ranks = {}, float first_embedding = 0.5F) {
  Random random(5);
  TestBatch batch(kRows, kDense, kEmbeddings, random);
  batch.labels.assign(kRows, 1.0F);
  batch.embedding_values[0] = first_embedding;
  Step step;
  step.embedding_gradient.assign(kRows * kEmbeddings, NAN);
  std::vector<float> probabilities(kRows);
  const auto result =
      ComputeGradients(network, batch.dense(), batch.embeddings(), batch.labels,
                       {step.embedding_gradient.data(), kRows, kEmbeddings}, probabilities, ranks);
  REQUIRE(result.ok());
  step.result = *result;
  step.gradients.assign(network.gradients().begin(), network.gradients().end());
  return step;
}

// As RunStep of a fresh network on the CPU, in f32.
Step Expected(float positive_weight, const RankStep& ranks = {}) {
  auto network = CreateCpuNetwork(WeightedModel(positive_weight), OptionsIn({}));
  REQUIRE(network.ok());
  return RunStep(**network, ranks);
}

TEST_CASE("the loss scale falls when gradients overflow and rises with time, within bounds") {
  cuda::LossScale state;
  cuda::StepReport report{.loss = 0.7, .not_finite = 1, .loss_scale = 0};
  const cuda::UpdateLossScale update{&report, &state};
  for (float scale = cuda::kFirstLossScale; scale >= 1; scale /= 2) {
    update(0);
    CHECK(report.loss_scale == scale);
  }
  update(0);
  CHECK(state.scale == 1.0F);
  CHECK(state.inverse == 1.0F);
  report.not_finite = 0;
  for (uint32_t i = 0; i < cuda::kScaleGrowthSteps - 1; ++i) update(0);
  CHECK(state.scale == 1.0F);
  update(0);
  CHECK(state.scale == 2.0F);
  CHECK(state.inverse == 0.5F);
  for (uint32_t i = 0; i < 30 * cuda::kScaleGrowthSteps; ++i) update(0);
  CHECK(state.scale == cuda::kMaxLossScale);
  CHECK(state.inverse == 1.0F / cuda::kMaxLossScale);
  // One bad step restarts the count.
  for (uint32_t i = 0; i < cuda::kScaleGrowthSteps / 2; ++i) update(0);
  report.not_finite = 1;
  update(0);
  report.not_finite = 0;
  for (uint32_t i = 0; i < cuda::kScaleGrowthSteps - 1; ++i) update(0);
  CHECK(state.scale == cuda::kMaxLossScale / 2);
  // A NaN loss changes nothing.
  report = {.loss = NAN, .not_finite = 1, .loss_scale = 0};
  update(0);
  CHECK(state.scale == cuda::kMaxLossScale / 2);
}

TEST_CASE("gradients far below f16's range are correct") {
  const RankStep ranks{.global_samples = uint64_t{1} << 24};
  const Step expected = Expected(1.0F, ranks);
  // Without a scale f16 would have zeros for all of them.
  CHECK(std::ranges::all_of(expected.embedding_gradient,
                            [](float value) { return std::abs(value) < 0x1p-25F; }));
  auto network = CreateTestNetwork(WeightedModel(1.0F), OptionsIn(ComputePrecision::kF16));
  REQUIRE(network.ok());
  const Step actual = RunStep(**network, ranks);
  CHECK(actual.result.finite);
  CHECK(actual.result.loss_scale == cuda::kFirstLossScale);
  CHECK(RelativeError(actual.embedding_gradient, expected.embedding_gradient) < 0.02);
  CHECK(RelativeError(actual.gradients, expected.gradients) < 0.02);
}

TEST_CASE(
    "steps whose gradients overflow change nothing but the scale, which falls until they fit") {
  constexpr float kWeight = 50'000.0F;
  const Step expected = Expected(kWeight);
  auto network = CreateTestNetwork(WeightedModel(kWeight), OptionsIn(ComputePrecision::kF16));
  REQUIRE(network.ok());
  const std::vector<float> parameters((*network)->parameters().begin(),
                                      (*network)->parameters().end());
  const std::vector<float> state((*network)->state().begin(), (*network)->state().end());
  float scale = cuda::kFirstLossScale;
  Step step = RunStep(**network);
  for (; !step.result.finite && scale >= 1; scale /= 2) {
    CHECK(step.result.loss_scale == scale);
    CHECK((*network)->ApplyGradients(0.1F).code() == absl::StatusCode::kFailedPrecondition);
    step = RunStep(**network);
  }
  CHECK(scale < cuda::kFirstLossScale / 8);
  CHECK(step.result.finite);
  CHECK(step.result.loss_scale == scale);
  CHECK(SameBits((*network)->parameters(), parameters));
  const std::span<const float> now = (*network)->state();
  CHECK(SameBits(now.first(now.size() - 3), std::span(state).first(state.size() - 3)));
  CHECK(SameBits(now.last(3), std::vector<float>{scale, 1 / scale, 1}));
  CHECK(RelativeError(step.embedding_gradient, expected.embedding_gradient) < 0.01);
  CHECK(RelativeError(step.gradients, expected.gradients) < 0.01);
  CHECK((*network)->ApplyGradients(1e-6F).ok());
  CHECK_FALSE(SameBits((*network)->parameters(), parameters));
}

TEST_CASE("a restored network continues with the loss scale") {
  constexpr float kWeight = 50'000.0F;
  auto network = CreateTestNetwork(WeightedModel(kWeight), OptionsIn(ComputePrecision::kF16));
  REQUIRE(network.ok());
  while (!RunStep(**network).result.finite) continue;
  const std::vector<DenseTensor> tensors = (*network)->tensors();
  CHECK(tensors.back().name == "loss_scale");
  CHECK(tensors.back().offset + 3 == (*network)->state().size());

  auto restored = CreateTestNetwork(WeightedModel(kWeight), OptionsIn(ComputePrecision::kF16));
  REQUIRE(restored.ok());
  const std::vector<float> parameters((*network)->parameters().begin(),
                                      (*network)->parameters().end());
  const std::vector<float> state((*network)->state().begin(), (*network)->state().end());
  REQUIRE((*restored)->Restore(parameters, state).ok());
  const Step expected = RunStep(**network);
  const Step actual = RunStep(**restored);
  CHECK(actual.result.finite);
  CHECK(actual.result.loss_scale == expected.result.loss_scale);
  CHECK(actual.result.loss_scale < cuda::kFirstLossScale);
  CHECK(SameBits(actual.gradients, expected.gradients));
  CHECK(SameBits((*restored)->state(), (*network)->state()));
}

TEST_CASE("an input that is not finite does not lower the scale") {
  auto network = CreateTestNetwork(WeightedModel(1.0F), OptionsIn(ComputePrecision::kF16));
  REQUIRE(network.ok());
  CHECK_FALSE(RunStep(**network, {}, std::numeric_limits<float>::infinity()).result.finite);
  const Step step = RunStep(**network);
  CHECK(step.result.finite);
  CHECK(step.result.loss_scale == cuda::kFirstLossScale);
}

TEST_CASE("other precisions have no scale, and the CPU rejects f16") {
  for (const ComputePrecision precision : {ComputePrecision::kF32, ComputePrecision::kBf16}) {
    auto network = CreateTestNetwork(WeightedModel(1.0F), OptionsIn(precision));
    REQUIRE(network.ok());
    CHECK(RunStep(**network).result.loss_scale == 1.0F);
  }
  const auto refused = CreateCpuNetwork(WeightedModel(1.0F), OptionsIn(ComputePrecision::kF16));
  CHECK(refused.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(refused.status().message() ==
        "nn_worker.precision: f16 requires a CUDA device; use f32 or bf16");
}

}  // namespace
}  // namespace simurgh::testing
