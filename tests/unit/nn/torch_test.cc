// Layers against PyTorch in f64, forward and backward.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <catch2/catch.hpp>

#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

void Write(const std::string& path, std::span<const float> values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
}

std::string NamesOf(const std::vector<std::string>& names) {
  return absl::StrCat("[\"", absl::StrJoin(names, "\", \""), "\"]");
}

// As nn-workers describe it, with the keys of all kinds. dim: of the rows that it reads.
std::string Describe(const LayerConfig& layer, size_t dim) {
  return absl::StrCat(R"({"kind": ")", NameOf(layer.kind), R"(", "width": )",
                      std::max(layer.width, 1U), R"(, "rank": )", layer.rank, R"(, "momentum": )",
                      layer.momentum, R"(, "epsilon": )", layer.epsilon, R"(, "hidden": [)",
                      absl::StrJoin(layer.hidden, ", "), R"(], "dim": )", dim, "}");
}

// Names and shapes of the parameters, or of the running statistics.
std::string TensorsOf(const DenseNetwork& network, bool in_state) {
  std::string tensors;
  for (const DenseTensor& tensor : network.tensors()) {
    if (tensor.in_state != in_state) continue;
    absl::StrAppend(&tensors, tensors.empty() ? "" : ", ", R"([")", tensor.name, R"(", [)",
                    absl::StrJoin(tensor.shape, ", "), "]]");
  }
  return tensors;
}

std::string Describe(const ModelConfig& model, const ModelInputs& inputs,
                     const DenseNetwork& network) {
  std::vector<std::string> dense;
  std::vector<std::string> masks;
  std::vector<std::string> embeddings;
  std::vector<std::string> towers;
  std::vector<float> weights;
  for (const ModelInputs::Feature& feature : inputs.features) {
    embeddings.push_back(
        absl::StrCat(R"({"feature": ")", feature.name, R"(", "width": )", feature.width, "}"));
    for (size_t i = 0; i < feature.mask_width; ++i) {
      masks.push_back(absl::StrCat(kMaskInput, feature.name, ".", i));
    }
  }
  for (size_t i = 0; i + masks.size() < inputs.dense_width; ++i) {
    dense.push_back(absl::StrCat("x", i));
  }
  dense.insert(dense.end(), masks.begin(), masks.end());
  for (const TowerConfig& tower : model.towers) {
    size_t dim = 0;
    for (const ModelInputs::Feature& feature : inputs.features) {
      if (tower.inputs.back() == kMaskInput + feature.name)
        dim = feature.width / feature.mask_width;
    }
    std::vector<std::string> layers;
    for (const LayerConfig& layer : tower.layers) layers.push_back(Describe(layer, dim));
    towers.push_back(absl::StrCat(R"({"name": ")", tower.name, R"(", "inputs": )",
                                  NamesOf(tower.inputs), R"(, "layers": [)",
                                  absl::StrJoin(layers, ", "), "]}"));
  }
  for (const TaskConfig& task : model.tasks) weights.push_back(task.weight);
  return absl::StrCat(R"({"network": {"dense": )", NamesOf(dense), R"(, "embeddings": [)",
                      absl::StrJoin(embeddings, ", "), R"(], "towers": [)",
                      absl::StrJoin(towers, ", "), R"(]}, "weights": [)",
                      absl::StrJoin(weights, ", "), R"(], "tensors": [)", TensorsOf(network, false),
                      R"(], "statistics": [)", TensorsOf(network, true), "]}");
}

std::vector<double> Doubles(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  return values;
}

// Compares the next values with `found`, relative to the largest.
void CheckNext(const char* what, std::span<const float> values, std::span<const double>& found) {
  CAPTURE(what);
  REQUIRE(found.size() >= values.size());
  double largest = 1e-3;
  for (const double value : found.first(values.size()))
    largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i, values[i], found[i]);
    CHECK(std::abs(values[i] - found[i]) <= 1e-5 * largest);
  }
  found = found.subspan(values.size());
}

// Compares loss, probabilities and all gradients of a training step.
void CompareStep(const ModelConfig& model, const ModelInputs& inputs, const TestBatch& batch,
                 Random& random) {
  const std::string python = Python("numpy, safetensors.numpy, torch");
  const auto network = CreateCpuNetwork(model, {.inputs = inputs});
  REQUIRE(network.ok());
  for (float& weight : (*network)->parameters()) {
    weight += 0.3F * static_cast<float>(random.Normal());
  }
  const TemporaryFolder folder;
  std::ofstream(folder.Path("model.json")) << Describe(model, inputs, **network);
  Write(folder.Path("parameters"), (*network)->parameters());
  Write(folder.Path("dense"), batch.dense_values);
  Write(folder.Path("embeddings"), batch.embedding_values);
  Write(folder.Path("labels"), batch.labels);
  REQUIRE(std::system(
              absl::StrCat(python, " tests/unit/nn/torch_reference.py ", folder.path()).c_str()) ==
          0);
  const std::vector<double> values = Doubles(folder.Path("found"));

  std::vector<float> probabilities(batch.labels.size());
  std::vector<float> gradient(batch.embedding_values.size(), NAN);
  const auto result =
      ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                       {gradient.data(), batch.rows, batch.embedding_width}, probabilities);
  REQUIRE(result.ok());
  CHECK(result->finite);
  std::span<const double> found = values;
  const auto loss = static_cast<float>(result->loss);
  CheckNext("loss", {&loss, 1}, found);
  CheckNext("probabilities", probabilities, found);
  for (const DenseTensor& tensor : (*network)->tensors()) {
    if (tensor.in_state) continue;
    size_t count = 1;
    for (const size_t dim : tensor.shape) count *= dim;
    CheckNext(tensor.name.c_str(), (*network)->gradients().subspan(tensor.offset, count), found);
  }
  CheckNext("embeddings", gradient, found);
  CHECK(found.empty());
}

TEST_CASE("Sequences and experts have the gradients of PyTorch in f64") {
  // By sample; in the last batch no sample has a row.
  const bool has_rows = GENERATE(true, false);
  Random random(3);
  const TestBatch batch =
      SequenceBatch(11, random, [&](size_t row) { return has_rows ? row % (kTestPlaces + 1) : 0; });
  CompareStep(Sequences(), SequenceInputs(), batch, random);
}

TEST_CASE("Activations, norms and fusions have the gradients of PyTorch in f64") {
  Random random(4);
  const ModelInputs inputs = TestInputs(5);
  const TestBatch batch(70, inputs.dense_width, inputs.embedding_width, random, 2);
  CompareStep(Fusions(), inputs, batch, random);
}

TEST_CASE("Empty places count nothing, whatever their embeddings are") {
  Random random(4);
  TestBatch batch = SequenceBatch(8, random, [](size_t row) { return row % (kTestPlaces + 1); });
  const auto network = CreateCpuNetwork(Sequences(), {.inputs = SequenceInputs()});
  REQUIRE(network.ok());
  std::vector<float> before(batch.labels.size());
  std::vector<float> after(batch.labels.size());
  REQUIRE(PredictFrom(**network, batch.dense(), batch.embeddings(), before).ok());
  size_t changed = 0;
  for (size_t row = 0; row < batch.rows; ++row) {
    for (size_t l = row % (kTestPlaces + 1); l < kTestPlaces; ++l, ++changed) {
      float* place = &batch.embedding_values[row * batch.embedding_width + kTestDim * (1 + l)];
      std::fill_n(place, kTestDim, 7.0F);
    }
  }
  CHECK(changed > 10);
  REQUIRE(PredictFrom(**network, batch.dense(), batch.embeddings(), after).ok());
  CHECK(after == before);
  // But the rows count.
  std::ranges::fill(batch.embedding_values, 7.0F);
  REQUIRE(PredictFrom(**network, batch.dense(), batch.embeddings(), after).ok());
  CHECK(after != before);
}

}  // namespace
}  // namespace simurgh::testing
