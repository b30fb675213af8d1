// Layers of sequences on a device, or on a simulated one, compared with the CPU backend.

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/nn/cuda/training_run.h"
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

// Compares the values as a vector: a rounding error near 0 of a relu's input changes whole
// gradients.
void CheckVector(const std::vector<float>& found, const std::vector<float>& wanted,
                 double tolerance) {
  if (std::ranges::all_of(wanted, [](float value) { return value == 0.0F; })) {
    CHECK(found == wanted);
  } else {
    CHECK(RelativeError(found, wanted) < tolerance);
  }
}

// Rows and heads of whole packs. The top reads the blocks' outputs, so their empty places have
// gradients.
ModelConfig Wide() {
  using Kind = LayerConfig::Kind;
  const auto block = [](uint32_t heads, bool positions, bool causal) {
    return LayerConfig{.kind = Kind::kSelfAttention,
                       .width = heads,
                       .hidden = {24},
                       .positions = positions,
                       .causal = causal};
  };
  return {.towers = {{"first", {"embeddings.seen", "mask.seen"}, {block(2, true, false)}},
                     {"second", {"first", "mask.seen"}, {block(1, true, true)}},
                     {"third", {"embeddings.seen", "mask.seen"}, {block(4, false, false)}},
                     {"dice",
                      {"embeddings.item", "second", "mask.seen"},
                      {{.kind = Kind::kAttention,
                        .hidden = {16, 8},
                        .activation = Kind::kDice,
                        .normalises = true}}},
                     {"top", {"dense", "embeddings", "second", "third", "dice"}, {Linear(2)}}},
          .tasks = {{.weight = 1.0F}, {.weight = 0.5F}}};
}

ModelInputs WideInputs() {
  constexpr size_t kDim = 16;
  return {.dense_width = 2 + kTestPlaces,
          .embedding_width = kDim * (1 + kTestPlaces),
          .features = {{"item", kDim}, {"seen", kDim * kTestPlaces, kTestPlaces, kTestPlaces}}};
}

struct SequenceCase {
  const char* name;
  ModelConfig model;
  ModelInputs inputs;
};

std::vector<SequenceCase> SequenceCases() {
  return {{"pools", Pools(), HistoryInputs()},
          {"histories", Histories(), HistoryInputs()},
          {"wide", Wide(), WideInputs()}};
}

// Rows of the samples of a batch.
struct Lengths {
  const char* name;
  std::function<size_t(size_t)> of;
};

std::vector<Lengths> LengthsOfBatches() {
  return {{"all lengths", [](size_t sample) { return sample % (kTestPlaces + 1); }},
          {"one row each", [](size_t) { return 1; }},
          {"full", [](size_t) { return kTestPlaces; }},
          {"no rows", [](size_t) { return 0; }},
          {"a single row", [](size_t sample) { return sample == 7 ? 1 : 0; }}};
}

TEST_CASE("layers of sequences have the gradients of the CPU") {
  Random random(5);
  for (const SequenceCase& c : SequenceCases()) {
    for (const Lengths& lengths : LengthsOfBatches()) {
      const TestBatch batch = SequenceBatch(67, random, lengths.of, c.inputs);
      DenseNetworkOptions options{.inputs = c.inputs, .seed = 4};
      const auto cpu = CreateCpuNetwork(c.model, options);
      REQUIRE(cpu.ok());
      const Gradients wanted = GradientsOf(**cpu, batch);
      for (const auto& [precision, tolerance] : {std::pair(ComputePrecision::kF32, 2e-6),
                                                 {ComputePrecision::kBf16, 6e-2},
                                                 {ComputePrecision::kF16, 3e-2}}) {
        if (!BackendHas(precision)) continue;
        CAPTURE(c.name, lengths.name, static_cast<int>(precision));
        options.precision = precision;
        const auto device = CreateTestNetwork(c.model, options);
        REQUIRE(device.ok());
        const Gradients found = GradientsOf(**device, batch);
        CheckVector(found.probabilities, wanted.probabilities, tolerance);
        CheckVector(found.weights, wanted.weights, tolerance);
        CheckVector(found.embeddings, wanted.embeddings, tolerance);
      }
    }
  }
}

std::vector<float> OutputsOf(DenseNetwork& network, const TestBatch& batch) {
  std::vector<float> outputs(batch.labels.size());
  REQUIRE(OutputsFrom(network, batch.dense(), batch.embeddings(), outputs).ok());
  return outputs;
}

std::vector<float> Copy(std::span<const float> values) { return {values.begin(), values.end()}; }

// The batches have one shape, so a step's work is replayed with other numbers of rows.
TEST_CASE("running statistics count the rows of each batch as on the CPU") {
  Random random(6);
  for (const SequenceCase& c : SequenceCases()) {
    const DenseNetworkOptions options{.inputs = c.inputs, .seed = 4};
    const auto cpu = CreateCpuNetwork(c.model, options);
    const auto device = CreateTestNetwork(c.model, options);
    REQUIRE(cpu.ok());
    REQUIRE(device.ok());
    std::vector<TestBatch> batches;
    for (const Lengths& lengths : LengthsOfBatches()) {
      CAPTURE(c.name, lengths.name);
      const TestBatch& batch =
          batches.emplace_back(SequenceBatch(31, random, lengths.of, c.inputs));
      for (DenseNetwork* network : {cpu->get(), device->get()}) {
        GradientsOf(*network, batch);
        REQUIRE(network->ApplyGradients(0.1F).ok());
      }
      CheckVector(Copy((*device)->statistics()), Copy((*cpu)->statistics()), 1e-5);
      CheckVector(Copy((*device)->parameters()), Copy((*cpu)->parameters()), 1e-5);
    }
    // The state restores the network on either backend.
    const std::vector<float> parameters = Copy((*device)->parameters());
    const std::vector<float> state = Copy((*device)->state());
    const auto restored = CreateCpuNetwork(c.model, options);
    REQUIRE(restored.ok());
    REQUIRE((*restored)->Restore(parameters, state).ok());
    for (const TestBatch& batch : batches) {
      CheckVector(OutputsOf(**device, batch), OutputsOf(**restored, batch), 1e-5);
    }
  }
}

}  // namespace
}  // namespace simurgh::testing
