#include "tests/unit/nn/torch_check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <catch2/catch.hpp>

#include "nn/model_plan.h"
#include "tests/support/python.h"

namespace simurgh::testing {
namespace {

void Write(const std::string& path, std::span<const float> values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
}

std::vector<double> Doubles(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  return values;
}

std::string Describe(const TowerPlan& tower, const LayerPlan& layer) {
  using Kind = LayerConfig::Kind;
  const LayerConfig& config = layer.config;
  std::string text = absl::StrCat(
      R"({"kind": ")", NameOf(config.kind), R"(", "width": )", std::max(config.width, 1U),
      R"(, "heads": )", config.width, R"(, "rank": )", config.rank, R"(, "momentum": )",
      config.momentum, R"(, "epsilon": )", config.epsilon, R"(, "activation": ")",
      NameOf(config.activation), R"(", "softmax": )", config.normalises ? "true" : "false",
      R"(, "positions": )", config.positions ? "true" : "false", R"(, "causal": )",
      config.causal ? "true" : "false", R"(, "dim": )", layer.row_width, R"(, "hidden": )");
  const bool is_block = config.kind == Kind::kSelfAttention;
  absl::StrAppend(&text, is_block ? "" : "[", absl::StrJoin(config.hidden, ", "),
                  is_block ? "" : "]");
  std::vector<size_t> dims;
  for (const TowerInput& input : tower.inputs) {
    if (input.places > 1) dims.push_back(input.width / input.places);
  }
  if (ReadsSequence(config) && !dims.empty()) {
    absl::StrAppend(&text, R"(, "dims": [)", absl::StrJoin(dims, ", "), "]");
  }
  return text + "}";
}

// The model as nn-workers describe it.
std::string DescriptionOf(const ModelConfig& model, const ModelInputs& inputs,
                          const DenseNetwork& network) {
  const auto plan = PlanModel(model, inputs);
  REQUIRE(plan.ok());
  std::vector<std::string> towers;
  for (size_t t = 0; t < model.towers.size(); ++t) {
    std::vector<std::string> layers;
    for (const LayerPlan& layer : plan->towers[t].layers) {
      layers.push_back(Describe(plan->towers[t], layer));
    }
    towers.push_back(absl::StrCat(R"({"name": ")", model.towers[t].name, R"(", "inputs": [")",
                                  absl::StrJoin(model.towers[t].inputs, R"(", ")"),
                                  R"("], "layers": [)", absl::StrJoin(layers, ", "), "]}"));
  }
  std::vector<std::string> features;
  std::vector<std::string> masks;
  for (const ModelInputs::Feature& feature : inputs.features) {
    features.push_back(
        absl::StrCat(R"({"feature": ")", feature.name, R"(", "width": )", feature.width, "}"));
    for (size_t i = 0; i < feature.mask_width; ++i) {
      masks.push_back(absl::StrCat(R"("mask.)", feature.name, ".", i, R"(")"));
    }
  }
  std::vector<std::string> dense(inputs.dense_width - masks.size(), R"("x")");
  dense.insert(dense.end(), masks.begin(), masks.end());
  std::vector<std::string> tensors;
  std::vector<std::string> statistics;
  for (const DenseTensor& tensor : network.tensors()) {
    const bool is_running = tensor.name.find(".running_") != std::string::npos;
    if (tensor.in_state && !is_running) continue;
    (is_running ? statistics : tensors)
        .push_back(
            absl::StrCat(R"([")", tensor.name, R"(", [)", absl::StrJoin(tensor.shape, ", "), "]]"));
  }
  std::vector<float> weights;
  for (const TaskConfig& task : TasksOf(model)) weights.push_back(task.weight);
  return absl::StrCat(
      R"({"network": {"dense": [)", absl::StrJoin(dense, ", "), R"(], "embeddings": [)",
      absl::StrJoin(features, ", "), R"(], "towers": [)", absl::StrJoin(towers, ", "),
      R"(]}, "weights": [)", absl::StrJoin(weights, ", "), R"(], "tensors": [)",
      absl::StrJoin(tensors, ", "), R"(], "statistics": [)", absl::StrJoin(statistics, ", "), "]",
      IsInBatch(model)
          ? absl::StrCat(R"(, "temperature": )", TasksOf(model).front().loss.temperature,
                         R"(, "log_q": )",
                         model.loss.correction == LossConfig::Correction::kLogQ ? "true" : "false")
          : "",
      "}");
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

}  // namespace

void CheckAgainstTorch(const ModelConfig& model, const ModelInputs& inputs, const TestBatch& batch,
                       const std::string& folder, const RankStep& step) {
  const std::string python = Python("numpy, safetensors.numpy, torch");
  const auto network = CreateCpuNetwork(model, {.inputs = inputs});
  REQUIRE(network.ok());
  Random random(8);
  for (float& weight : (*network)->parameters()) {
    weight += 0.3F * static_cast<float>(random.Normal());
  }
  std::ofstream(folder + "/model.json") << DescriptionOf(model, inputs, **network);
  Write(folder + "/parameters", (*network)->parameters());
  Write(folder + "/dense", batch.dense_values);
  Write(folder + "/embeddings", batch.embedding_values);
  Write(folder + "/labels", batch.labels);
  std::ofstream(folder + "/items", std::ios::binary)
      .write(reinterpret_cast<const char*>(step.item_keys.data()),
             static_cast<std::streamsize>(step.item_keys.size_bytes()));
  REQUIRE(std::system(absl::StrCat(python, " tests/unit/nn/torch_reference.py ", folder).c_str()) ==
          0);
  const std::vector<double> values = Doubles(folder + "/found");

  std::vector<float> probabilities(batch.labels.size());
  std::vector<float> gradient(batch.embedding_values.size(), NAN);
  const auto result =
      ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                       {gradient.data(), batch.rows, batch.embedding_width}, probabilities, step);
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

}  // namespace simurgh::testing
