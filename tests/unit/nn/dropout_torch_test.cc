// Dropout and label smoothing against PyTorch in f64, with the masks of the step.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <catch2/catch.hpp>

#include "nn/dropout.h"
#include "nn/model_plan.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDense = 3;
constexpr size_t kEmbeddings = kTestFeatures * kTestDim;
const RankStep kStep{.step = 9, .rank = 2};

ModelConfig Model() {
  ModelConfig model{.towers = {{.name = "deep",
                                .inputs = {"dense", "embeddings"},
                                .layers = {Dropout(0.1F), Linear(8), Relu(), Dropout(0.4F),
                                           Linear(5), Sigmoid(), Dropout(0.3F)}},
                               {.name = "cross",
                                .inputs = {"dense", "embeddings"},
                                .layers = {Dropout(0.2F), Cross(), Dropout(0.2F), Cross(2)}},
                               {.name = "top",
                                .inputs = {"deep", "cross"},
                                .layers = {Linear(4), Relu(), Dropout(0.5F), Linear(1)}}}};
  model.loss.label_smoothing = 0.2F;
  return model;
}

std::string Describe(const ModelConfig& model, const DenseNetwork& network) {
  std::vector<std::string> tensors;
  for (const DenseTensor& tensor : network.tensors()) {
    if (tensor.in_state) continue;
    tensors.push_back(
        absl::StrCat(R"([")", tensor.name, R"(", [)", absl::StrJoin(tensor.shape, ", "), "]]"));
  }
  std::vector<std::string> towers;
  for (const TowerConfig& tower : model.towers) {
    std::vector<std::string> layers;
    for (const LayerConfig& layer : tower.layers) {
      layers.push_back(absl::StrCat(R"({"kind": ")", NameOf(layer.kind), R"(", "rate": )",
                                    layer.rate, R"(, "rank": )", layer.rank, "}"));
    }
    towers.push_back(absl::StrCat(R"({"name": ")", tower.name, R"(", "inputs": [")",
                                  absl::StrJoin(tower.inputs, R"(", ")"), R"("], "layers": [)",
                                  absl::StrJoin(layers, ", "), "]}"));
  }
  return absl::StrCat(
      R"({"network": {"dense": ["x", "y", "z"],
          "embeddings": [{"feature": "a", "width": 3}, {"feature": "b", "width": 3}],
          "towers": [)",
      absl::StrJoin(towers, ", "), R"(]}, "weights": [1], "label_smoothing": [)",
      model.loss.label_smoothing, R"(], "tensors": [)", absl::StrJoin(tensors, ", "), "]}");
}

// The factors of all dropout layers, in their order.
std::vector<float> Masks(const ModelConfig& model, size_t rows) {
  const auto plan = PlanModel(model, TestInputs(kDense));
  REQUIRE(plan.ok());
  std::vector<float> factors;
  for (const TowerPlan& tower : plan->towers) {
    for (const LayerPlan& layer : tower.layers) {
      if (layer.config.kind != LayerConfig::Kind::kDropout) continue;
      const DropoutMask mask =
          DropoutMask::Of(layer.config.rate, DropoutLayer(/*seed=*/1, layer.stream))
              .At(DropoutStep(kStep.step, kStep.rank));
      for (size_t row = 0; row < rows; ++row) {
        for (uint32_t c = 0; c < layer.output_width; ++c) {
          factors.push_back(mask.Factor(mask.RowKey(row), c));
        }
      }
    }
  }
  return factors;
}

void Write(const std::string& path, std::span<const float> values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
}

TEST_CASE("dropout and label smoothing have the gradients of PyTorch in f64") {
  const std::string python = Python("numpy, safetensors.numpy, torch");
  constexpr size_t kRows = 23;
  Random random(5);
  const TestBatch batch(kRows, kDense, kEmbeddings, random);
  const auto network = CreateCpuNetwork(Model(), {.inputs = TestInputs(kDense)});
  REQUIRE(network.ok());
  for (float& weight : (*network)->parameters()) {
    weight += 0.3F * static_cast<float>(random.Normal());
  }
  const TemporaryFolder folder;
  std::ofstream(folder.Path("model.json")) << Describe(Model(), **network);
  Write(folder.Path("parameters"), (*network)->parameters());
  Write(folder.Path("dense"), batch.dense_values);
  Write(folder.Path("embeddings"), batch.embedding_values);
  Write(folder.Path("labels"), batch.labels);
  Write(folder.Path("masks"), Masks(Model(), kRows));
  REQUIRE(std::system(
              absl::StrCat(python, " tests/unit/nn/torch_reference.py ", folder.path()).c_str()) ==
          0);
  std::ifstream file(folder.Path("found"), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<double> expected(bytes.size() / sizeof(double));
  std::memcpy(expected.data(), bytes.data(), bytes.size());

  std::vector<float> probabilities(kRows);
  std::vector<float> gradient(batch.embedding_values.size());
  const auto result = ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                                       {gradient.data(), kRows, kEmbeddings}, probabilities, kStep);
  REQUIRE(result.ok());
  std::vector<float> found = {static_cast<float>(result->loss)};
  found.insert(found.end(), probabilities.begin(), probabilities.end());
  found.insert(found.end(), (*network)->gradients().begin(), (*network)->gradients().end());
  found.insert(found.end(), gradient.begin(), gradient.end());
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(double{found[i]} - expected[i]) < 1e-6);
  }
}

}  // namespace
}  // namespace simurgh::testing
