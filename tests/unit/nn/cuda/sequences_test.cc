// Layers of sequences on a device, or on a simulated one, compared with the CPU backend.

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/nn/test_backend.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

ModelConfig Pools() {
  using Kind = LayerConfig::Kind;
  const auto attention = [](std::vector<uint32_t> hidden, Kind activation, bool normalises) {
    return LayerConfig{.kind = Kind::kAttention,
                       .hidden = std::move(hidden),
                       .activation = activation,
                       .normalises = normalises};
  };
  return {
      .towers =
          {{"last", {"embeddings.seen", "mask.seen"}, {{.kind = Kind::kLast}, Linear(4)}},
           {"all",
            {"embeddings.seen", "embeddings.kinds", "embeddings.gaps", "mask.seen"},
            {{.kind = Kind::kMean}, Linear(3), Sigmoid()}},
           {"two", {"embeddings.seen", "embeddings.gaps", "mask.seen"}, {{.kind = Kind::kLast}}},
           {"plain",
            {"embeddings.item", "embeddings.seen", "embeddings.gaps", "mask.seen"},
            {attention({6, 4}, Kind::kRelu, false)}},
           {"query", {"dense"}, {Linear(4), Sigmoid()}},
           {"normal",
            {"query", "embeddings.seen", "embeddings.gaps", "mask.seen"},
            {attention({5, 3}, Kind::kPrelu, true), Linear(3)}},
           {"smooth",
            {"embeddings.item", "embeddings.seen", "mask.seen"},
            {attention({4}, Kind::kSigmoid, true)}},
           {"flat",
            {"embeddings.item", "embeddings.kind", "embeddings.seen", "embeddings.kinds",
             "mask.seen"},
            {attention({}, Kind::kRelu, false)}},
           {"top",
            {"dense", "embeddings", "last", "all", "two", "plain", "normal", "smooth", "flat"},
            {Linear(2)}}},
      .tasks = {{.weight = 1.0F}, {.weight = 0.5F}}};
}

struct Gradients {
  std::vector<float> probabilities;
  std::vector<float> weights;
  std::vector<float> embeddings;
};

Gradients GradientsOf(DenseNetwork& network, const TestBatch& batch) {
  Gradients gradients;
  gradients.probabilities.resize(batch.labels.size());
  gradients.embeddings.resize(batch.embedding_values.size(), NAN);
  const auto result = ComputeGradients(
      network, batch.dense(), batch.embeddings(), batch.labels,
      {gradients.embeddings.data(), batch.rows, batch.embedding_width}, gradients.probabilities);
  REQUIRE(result.ok());
  CHECK(result->finite);
  const std::span<float> weights = network.gradients();
  gradients.weights.assign(weights.begin(), weights.end());
  return gradients;
}

void CheckNear(const std::vector<float>& found, const std::vector<float>& wanted, float tolerance) {
  REQUIRE(found.size() == wanted.size());
  float largest = 0.0F;
  for (const float value : wanted) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i, found[i], wanted[i]);
    CHECK(std::abs(found[i] - wanted[i]) <= tolerance * largest);
  }
}

TEST_CASE("sequences are pooled as on the CPU") {
  Random random(5);
  const TestBatch batch = SequenceBatch(
      23, random, [](size_t row) { return row % (kTestPlaces + 1); }, HistoryInputs());
  DenseNetworkOptions options{.inputs = HistoryInputs(), .seed = 4};
  const auto cpu = CreateCpuNetwork(Pools(), options);
  REQUIRE(cpu.ok());
  const Gradients wanted = GradientsOf(**cpu, batch);
  for (const auto& [precision, tolerance] : {std::pair(ComputePrecision::kF32, 1e-6F),
                                             {ComputePrecision::kBf16, 2e-2F},
                                             {ComputePrecision::kF16, 3e-3F}}) {
    if (!BackendHas(precision)) continue;
    CAPTURE(static_cast<int>(precision));
    options.precision = precision;
    const auto device = CreateTestNetwork(Pools(), options);
    REQUIRE(device.ok());
    const Gradients found = GradientsOf(**device, batch);
    CheckNear(found.probabilities, wanted.probabilities, tolerance);
    CheckNear(found.weights, wanted.weights, tolerance);
    CheckNear(found.embeddings, wanted.embeddings, tolerance);
  }
}

}  // namespace
}  // namespace simurgh::testing
