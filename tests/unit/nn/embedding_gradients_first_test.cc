// The CPU's backward pass, which completes the embeddings' gradients before those of the weights.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "nn/dense_network.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

constexpr size_t kRows = 37;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Model {
  ModelConfig model;
  ModelInputs inputs;
};

// Every kind of layer with weights, towers that read others, and embeddings that no tower reads.
std::vector<Model> Models() {
  const ModelInputs inputs = TestInputs(5);
  return {{Chain({Linear(16), Relu(), Linear(1)}), inputs},
          {Chain({BatchNorm(), Linear(9), BatchNorm(), Relu(), Linear(1)}), inputs},
          {Chain({Cross(), Cross(2), Linear(4), Gelu(), Linear(1)}), inputs},
          {SharedInputs(), inputs},
          {TwoTasks(), inputs},
          {{.towers = {{"top", {"dense"}, {Linear(3), Relu(), Linear(1)}}}}, inputs},
          {Sequences(), SequenceInputs()},
          {Histories(), HistoryInputs()}};
}

TestBatch BatchOf(const Model& model) {
  Random random(3);
  if (model.inputs.embedding_width != kTestFeatures * kTestDim) {
    return SequenceBatch(
        kRows, random, [](size_t sample) { return sample % (kTestPlaces + 1); }, model.inputs);
  }
  return {kRows, model.inputs.dense_width, model.inputs.embedding_width, random,
          TasksOf(model.model).size()};
}

struct Step {
  BatchResult result;
  std::vector<float> embedding_gradients;
  std::vector<float> weight_gradients;
  std::vector<float> probabilities;
};

// early: the caller takes the embeddings' gradients when it is given them. It then overwrites all
// memory that it may release.
Step TakeStep(const Model& model, bool early) {
  auto network = CreateCpuNetwork(model.model, {.inputs = model.inputs, .seed = 5});
  REQUIRE(network.ok());
  TestBatch batch = BatchOf(model);
  const auto block = (*network)->blocks().Lease(kRows, true);
  std::ranges::copy(batch.embedding_values, block->embeddings.flat().begin());
  Step step;
  step.probabilities.resize(kRows * TasksOf(model.model).size(), kNan);
  size_t calls = 0;
  size_t reports = 0;
  const auto take = [&] {
    const std::span<const float> gradients = block->gradients.flat();
    step.embedding_gradients.assign(gradients.begin(), gradients.end());
  };
  RankStep calls_back{.on_gradients = [&](size_t, size_t) {
    ++reports;
    CHECK(calls == (early ? 1 : 0));
  }};
  if (early) {
    calls_back.on_embedding_gradients = [&](bool usable) {
      ++calls;
      CHECK(usable);
      CHECK(reports == 0);
      take();
      for (const float p : step.probabilities) CHECK(std::isfinite(p));
      std::ranges::fill(block->embeddings.flat(), kNan);
      std::ranges::fill(block->gradients.flat(), kNan);
      std::ranges::fill(batch.dense_values, kNan);
      std::ranges::fill(batch.labels, kNan);
    };
  }
  const auto result = (*network)->ForwardBackward(*block, batch.dense(), batch.labels,
                                                  step.probabilities, calls_back);
  REQUIRE(result.ok());
  CHECK(reports > 0);
  if (!early) take();
  step.result = *result;
  const std::span<const float> gradients = (*network)->gradients();
  step.weight_gradients.assign(gradients.begin(), gradients.end());
  return step;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("embeddings' gradients are handed out first, and the batch may end with them") {
  size_t index = 0;
  for (const Model& model : Models()) {
    CAPTURE(index++);
    const Step plain = TakeStep(model, false);
    const Step early = TakeStep(model, true);
    CHECK(early.result.finite);
    CHECK(early.result.loss == plain.result.loss);
    CHECK(SameBits(early.embedding_gradients, plain.embedding_gradients));
    CHECK(SameBits(early.weight_gradients, plain.weight_gradients));
    CHECK(SameBits(early.probabilities, plain.probabilities));
  }
}

TEST_CASE("embeddings' gradients can be usable although those of weights are not") {
  // logit = dense w0 + embedding w1 + w2 = 0, times w3 = 1, so d loss / d logit = -1/2 for label 1.
  // Numbers from 2^48 on are not usable.
  struct Case {
    float dense, w1, label;
    bool usable, finite;
    float gradient;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Case one = GENERATE(Case{1, 1, 1, true, true, -0.5F},
                            Case{1e30F, 1, 1, true, false, -0.5F},  // d loss / d w0 = -5e29.
                            Case{1, 1e30F, 1, false, false, -5e29F},
                            Case{1, 1, kInfinity, false, false, -kInfinity});
  CAPTURE(one.dense, one.w1, one.label);
  auto network = CreateCpuNetwork(
      Chain({Linear(1), Linear(1)}),
      {.inputs = {.dense_width = 1, .embedding_width = 1, .features = {{"a", 1}}}});
  REQUIRE(network.ok());
  std::ranges::copy(std::vector<float>{0.0F, one.w1, 0.0F, 1.0F, 0.0F},
                    (*network)->parameters().begin());
  const auto block = (*network)->blocks().Lease(1, true);
  block->embeddings(0, 0) = 0.0F;
  float probability = 0.0F;
  size_t calls = 0;
  const RankStep step{.on_embedding_gradients = [&](bool usable) {
    ++calls;
    CHECK(usable == one.usable);
    CHECK(block->gradients(0, 0) == Approx(one.gradient));
  }};
  const auto result = (*network)->ForwardBackward(*block, {&one.dense, 1, 1}, {&one.label, 1},
                                                  {&probability, 1}, step);
  REQUIRE(result.ok());
  CHECK(calls == 1);
  CHECK(result->finite == one.finite);
}

}  // namespace
}  // namespace simurgh::testing
