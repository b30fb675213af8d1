// Layers of sequences and experts against PyTorch in f64, forward and backward.

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

// Sequences(), as nn-workers describe it.
std::string DescriptionOfSequences(const DenseNetwork& network) {
  const std::string seen = R"(["embeddings.seen", "mask.seen"])";
  const std::string pooled =
      R"("inputs": ["interest", "second", "last", "mean", "embeddings.item"], "layers": )";
  std::string tensors;
  for (const DenseTensor& tensor : network.tensors()) {
    if (tensor.in_state) continue;
    absl::StrAppend(&tensors, tensors.empty() ? "" : ", ", R"([")", tensor.name, R"(", [)",
                    absl::StrJoin(tensor.shape, ", "), "]]");
  }
  std::string towers = absl::StrCat(
      R"({"name": "interest", "inputs": ["embeddings.item", "embeddings.seen", "mask.seen"],
          "layers": [{"kind": "attention", "hidden": [5, 4], "dim": 3}]},
         {"name": "mean", "inputs": )",
      seen, R"(, "layers": [{"kind": "mean", "dim": 3}]},
         {"name": "query", "inputs": ["dense"], "layers": [{"kind": "linear"}]},
         {"name": "second", "inputs": ["query", "embeddings.seen", "mask.seen"],
          "layers": [{"kind": "attention", "hidden": [], "dim": 3}, {"kind": "linear"},
                     {"kind": "relu"}]},
         {"name": "last", "inputs": )",
      seen, R"(, "layers": [{"kind": "last", "dim": 3}]})");
  for (const char* name : {"expert_1", "expert_2"}) {
    absl::StrAppend(&towers, R"(, {"name": "mmoe.)", name, R"(", )", pooled,
                    R"([{"kind": "linear"}, {"kind": "sigmoid"}]})");
  }
  for (const char* task : {"a", "b"}) {
    absl::StrAppend(&towers, R"(, {"name": "mmoe.gate_)", task, R"(", )", pooled,
                    R"([{"kind": "linear"}, {"kind": "softmax"}]})");
  }
  for (const char* task : {"a", "b"}) {
    absl::StrAppend(&towers, R"(, {"name": ")", task, R"(", "inputs": ["mmoe.gate_)", task,
                    R"(", "mmoe.expert_1", "mmoe.expert_2"],
                        "layers": [{"kind": "mix", "width": 2}, {"kind": "linear"}]})");
  }
  absl::StrAppend(
      &towers,
      R"(, {"name": "top", "inputs": ["a", "b"], "layers": [{"kind": "sum", "width": 2}]})");
  return absl::StrCat(
      R"({"network": {"dense": ["x", "y", "mask.seen.0", "mask.seen.1", "mask.seen.2",
                                "mask.seen.3"],
          "embeddings": [{"feature": "item", "width": 3}, {"feature": "seen", "width": 12}],
          "towers": [)",
      towers, R"(]}, "weights": [1, 0.5], "tensors": [)", tensors, "]}");
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

TEST_CASE("Sequences and experts have the gradients of PyTorch in f64") {
  const std::string python = Python("numpy, safetensors.numpy, torch");
  const size_t rows = 11;
  // By sample; in the last batch no sample has a row.
  const bool has_rows = GENERATE(true, false);
  Random random(3);
  const TestBatch batch = SequenceBatch(
      rows, random, [&](size_t row) { return has_rows ? row % (kTestPlaces + 1) : 0; });
  const auto network = CreateCpuNetwork(Sequences(), {.inputs = SequenceInputs()});
  REQUIRE(network.ok());
  for (float& weight : (*network)->parameters()) {
    weight += 0.3F * static_cast<float>(random.Normal());
  }
  const TemporaryFolder folder;
  std::ofstream(folder.Path("model.json")) << DescriptionOfSequences(**network);
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
                       {gradient.data(), rows, batch.embedding_width}, probabilities);
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
