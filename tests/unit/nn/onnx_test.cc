// ONNX models against onnxruntime, an independent implementation.

#include "nn/onnx.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "nn/calibration.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

constexpr size_t kRows = 9;
constexpr size_t kWidth = 6;  // Of each input: two vectors of TestInputs().

void Write(const std::string& path, std::span<const float> values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> Floats(const std::string& path) {
  const std::string bytes = TextOf(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// Models in a folder, and what the network predicts with them.
class Exports {
 public:
  // Gives the network random weights and statistics.
  void Add(const std::string& name, const ModelConfig& model,
           const ModelInputs& inputs = TestInputs(kWidth), double kept = 1.0,
           const std::vector<Calibration>& calibrations = {}) {
    Add(name, model, inputs, kept,
        TestBatch(kRows, inputs.dense_width, inputs.embedding_width, random_), calibrations);
  }

  void Add(const std::string& name, const ModelConfig& model, const ModelInputs& inputs,
           double kept, const TestBatch& batch, const std::vector<Calibration>& calibrations = {}) {
    CAPTURE(name);
    auto network = CreateCpuNetwork(model, {.inputs = inputs});
    REQUIRE(network.ok());
    for (float& weight : (*network)->parameters()) {
      weight += 0.3F * static_cast<float>(random_.Normal());
    }
    for (float& value : (*network)->statistics()) value += static_cast<float>(random_.Uniform());
    const std::vector<TaskConfig> tasks = TasksOf(model);
    OnnxOptions options{.kept_negatives = kept,
                        .calibrations = calibrations,
                        .step = 7,
                        .metadata = {{"key", "ü"}}};
    for (size_t task = 0; task < tasks.size(); ++task) {
      options.outputs.push_back(absl::StrCat("p_", task));
    }
    const StatusOr<std::string> onnx =
        OnnxModel(model, inputs, (*network)->parameters(), (*network)->statistics(), options);
    REQUIRE(onnx.ok());
    std::ofstream(folder.Path(name + ".onnx"), std::ios::binary) << *onnx;
    Write(folder.Path(name + ".dense"), batch.dense_values);
    Write(folder.Path(name + ".embeddings"), batch.embedding_values);
    std::vector<float> rows(kRows * tasks.size());
    REQUIRE(OutputsFrom(**network, batch.dense(), batch.embeddings(), rows).ok());
    ToPredictions(tasks, kept, calibrations, rows);
    std::vector<float>& wanted = wanted_[name];
    for (size_t count : {kRows, size_t{1}}) {
      for (size_t task = 0; task < tasks.size(); ++task) {
        for (size_t row = 0; row < count; ++row) wanted.push_back(rows[row * tasks.size() + task]);
      }
    }
  }

  // Compares them with onnxruntime's predictions. Returns what the Python program has printed.
  std::string Check() {
    const std::string python = Python("numpy, onnx, onnxruntime");
    const std::string output = folder.Path("output");
    const int result = std::system(absl::StrCat(python, " tests/unit/nn/onnx_reference.py ",
                                                folder.path(), " > ", output, " 2>&1")
                                       .c_str());
    const std::string text = TextOf(output);
    CAPTURE(text);
    REQUIRE(result == 0);
    for (const auto& [name, wanted] : wanted_) {
      CAPTURE(name);
      const std::vector<float> found = Floats(folder.Path(name + ".found"));
      REQUIRE(found.size() == wanted.size());
      float least = 1;
      float most = 0;
      for (size_t i = 0; i < wanted.size(); ++i) {
        CAPTURE(i, found[i], wanted[i]);
        CHECK(std::abs(found[i] - wanted[i]) <= 1e-6F * std::max(1.0F, std::abs(wanted[i])));
        least = std::min(least, wanted[i]);
        most = std::max(most, wanted[i]);
      }
      CHECK(most - least > 1e-4F);  // The inputs matter.
    }
    return text;
  }

  const TemporaryFolder folder;

 private:
  Random random_{5};
  std::map<std::string, std::vector<float>> wanted_;
};

TEST_CASE("Every layer kind predicts the same in onnxruntime") {
  Exports exports;
  const LayerConfig out = Linear(1);
  exports.Add("linear", Chain({Linear(4), out}));
  exports.Add("batch_norm", Chain({BatchNorm(0.1F, 1e-3F), out}));
  exports.Add("relu", Chain({Linear(4), Relu(), out}));
  exports.Add("dropout", Chain({Dropout(0.5F), Linear(4), Relu(), Dropout(0.5F), Sigmoid(),
                                Dropout(0.5F), out}));
  exports.Add("gelu", Chain({Linear(4), Gelu(), out}));
  exports.Add("sigmoid", Chain({Linear(4), Sigmoid(), out}));
  exports.Add("dot", Chain({Dot(3), out}));
  exports.Add("cross", Chain({Cross(), Cross(), out}));
  exports.Add("cross_rank", Chain({Cross(2), Relu(), Cross(3), out}));
  exports.Add("fm", Chain({Linear(8), Fm(4), out}));
  exports.Add("sum", Chain({Linear(4), Sum()}));
  exports.Add("sum_2", Chain({Linear(6), Sum(2), out}));
  exports.Check();
}

TEST_CASE("Fusions predict the same in onnxruntime") {
  Exports exports;
  exports.Add("fusions", Fusions());
  exports.Add("joint", Chain({{.kind = LayerConfig::Kind::kJoint, .width = 4}, Sum()}));
  exports.Check();
}

TEST_CASE("Sequences and experts predict the same in onnxruntime") {
  Exports exports;
  Random random(7);
  // The first row, which is also predicted alone, has some rows; others have none or all places.
  exports.Add(
      "histories", Histories(), HistoryInputs(), 1.0,
      SequenceBatch(kRows, random, [](size_t row) { return (row + 2) % 5; }, HistoryInputs()));
  exports.Add("sequences", Sequences(), SequenceInputs(), 1.0,
              SequenceBatch(kRows, random, [](size_t row) { return (row + 2) % 5; }));
  exports.Check();
}

TEST_CASE("Towers, inputs, labels and the sampling correction predict the same in onnxruntime") {
  Exports exports;
  exports.Add("shared_inputs", SharedInputs());
  exports.Add("two_tasks", TwoTasks());
  const ModelConfig features = {
      .towers = {{"one", {"embeddings.b"}, {Linear(2)}},
                 {"two", {"embeddings.b", "embeddings.a"}, {Linear(2), Gelu()}},
                 {"top", {"two", "one"}, {Linear(1)}}}};
  exports.Add("features", features);
  exports.Add("no_dense", {.towers = {{"top", {"embeddings"}, {Linear(1)}}}}, TestInputs(0));
  exports.Add("no_embeddings", {.towers = {{"top", {"dense"}, {Linear(1)}}}},
              {.dense_width = kWidth});
  exports.Add("sampled", Chain({Linear(4), Relu(), Linear(1)}), TestInputs(kWidth), 0.01);
  exports.Add("calibrated", Chain({Linear(4), Relu(), Linear(1)}), TestInputs(kWidth), 0.1,
              {{.low = 0.6, .high = 0.6, .shift = -1.25}});
  exports.Add("calibrated_tasks", TwoTasks(), TestInputs(kWidth), 1.0,
              {{.low = 1.7, .high = 1.7, .shift = 0.5}, {.low = 0.4, .high = 2.5, .shift = -2}});
  exports.Add("bent", Chain({Linear(4), Relu(), Linear(1)}), TestInputs(kWidth), 0.1,
              {{.low = 0.3, .high = 1.8, .shift = 0.75}});
  ModelConfig numbers = Chain({Linear(4), Gelu(), Linear(4)});
  numbers.tasks.resize(4);
  numbers.tasks[1].loss.kind = LossConfig::Kind::kPoisson;
  numbers.tasks[2].loss.kind = LossConfig::Kind::kSquaredError;
  numbers.tasks[3].loss.kind = LossConfig::Kind::kPoisson;
  exports.Add("numbers", numbers);
  exports.Add("two_towers",
              {.towers = {{"user", {"dense", "embeddings.a"}, {Linear(3)}},
                          {"item", {"embeddings.b"}, {Plain(LayerConfig::Kind::kL2Norm)}},
                          {"top", {"user", "item"}, {Dot(3)}}},
               .loss = {.kind = LossConfig::Kind::kInBatchSoftmax, .temperature = 0.2F}});
  Random random(3);
  for (int i = 0; i < 20; ++i) {
    exports.Add(absl::StrCat("random_", i), RandomModel(random));
  }
  const std::string printed = exports.Check();
  CHECK_THAT(printed, Catch::Contains("two_tasks.onnx 7 {'key': 'ü'} ['p_0', 'p_1']\n"));
}

}  // namespace
}  // namespace simurgh::testing
