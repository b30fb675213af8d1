// The examples of models, trained on real data in one process.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/cluster/standalone_run.h"
#include "tests/support/temporary_folder.h"

namespace simurgh::testing {
namespace {

std::string AnyModel() {
  return GENERATE("config/adult-dlrm.yaml", "config/adult-dcn-v2.yaml", "config/adult-deepfm.yaml",
                  "config/adult-wide-deep.yaml", "config/adult-final-mlp.yaml",
                  "config/adult-mask-net.yaml");
}

TEST_CASE("Every model learns") {
  const std::string model = AnyModel();
  CAPTURE(model);
  CHECK(TrainStandalone(model, 2, {}).auc > 0.905);
}

TEST_CASE("Every model trains to the same last byte with 1 and 2 servers") {
  const std::string model = AnyModel();
  CAPTURE(model);
  CHECK(TrainStandalone(model, 1, Reproducible("4")) ==
        TrainStandalone(model, 2, Reproducible("4")));
}

TEST_CASE("Focal loss learns, too, and a heavier positive class changes the result") {
  const std::string model = "config/adult-dlrm.yaml";
  CHECK(TrainStandalone(model, 1, {"model.loss={kind: focal}"}).auc > 0.9);
  const Outcome plain = TrainStandalone(model, 1, Reproducible("1"));
  std::vector<std::string> overrides = Reproducible("1");
  overrides.emplace_back("model.loss={positive_weight: 3}");
  CHECK_FALSE(TrainStandalone(model, 1, overrides) == plain);
}

TEST_CASE("Two labels are learned at once, each by its own tower") {
  const std::string model = "config/adult-tasks.yaml";
  const Outcome both = TrainStandalone(model, 2, {});
  REQUIRE(both.task_aucs.size() == 2);
  CHECK(both.auc == both.task_aucs[0]);
  CHECK(both.task_aucs[0] > 0.85);
  CHECK(both.task_aucs[1] > 0.87);
  // A label without weight is not learned.
  const Outcome one = TrainStandalone(
      model, 2, {"model.tasks=[{label: income}, {label: marital_status, weight: 0}]"});
  CHECK(one.task_aucs[0] < 0.8);
  CHECK(one.task_aucs[1] > 0.87);
}

TEST_CASE("Several labels train to the same last byte with 1 and 2 servers") {
  const std::string model = "config/adult-tasks.yaml";
  CHECK(TrainStandalone(model, 1, Reproducible("4")) ==
        TrainStandalone(model, 2, Reproducible("4")));
}

// Data of a teacher that needs a layer, and models with and without it.
class TaughtData {
 public:
  TaughtData(const std::string& teacher, uint64_t samples)
      : teacher_(teacher),
        data_({"data.train=[" + Generate("train.csv", samples, 0) + "]",
               "data.test=[" + Generate("test.csv", 20'000, samples) + "]"}) {}

  // Requires that the examples' models reach the teacher for each label.
  void CheckReach(const std::vector<std::string>& examples, double less = 0.015) const {
    for (const std::string& example : examples) {
      CAPTURE(example);
      const std::vector<double> aucs = Train(example);
      REQUIRE(aucs.size() == teacher_aucs_.size());
      for (size_t i = 0; i < aucs.size(); ++i) CHECK(aucs[i] >= teacher_aucs_[i] - less);
    }
  }

  // Requires that an example with these overrides does not, in the mean over the labels.
  void CheckMiss(const std::string& example,
                 const std::vector<std::vector<std::string>>& others) const {
    for (const auto& overrides : others) {
      CAPTURE(overrides.back());
      CHECK(MeanOf(Train(example, overrides)) <= MeanOf(teacher_aucs_) - 0.03);
    }
  }

 private:
  // The test's AUCs, by label.
  std::vector<double> Train(const std::string& example,
                            std::vector<std::string> overrides = {}) const {
    overrides.insert(overrides.end(), data_.begin(), data_.end());
    const Outcome outcome = TrainStandalone("config/" + example + ".yaml", 1, overrides);
    return outcome.task_aucs.empty() ? std::vector{outcome.auc} : outcome.task_aucs;
  }

  static double MeanOf(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }

  std::string Generate(const std::string& name, uint64_t samples, uint64_t first) {
    std::string path = folder_.Path(name);
    const std::string report = path + ".report";
    const std::string command =
        absl::StrCat(DATAGEN_PROGRAM, " --teacher ", teacher_, " --output ", path, " --samples ",
                     samples, " --first ", first, " > ", report, " 2> /dev/null");
    REQUIRE(std::system(command.c_str()) == 0);
    teacher_aucs_.clear();
    std::ifstream file(report);
    std::string key;
    std::string value;
    while (file >> key >> value) {
      if (key == "teacher_auc" || key.starts_with("teacher_auc_label")) {
        teacher_aucs_.push_back(std::stod(value));
      }
    }
    return path;
  }

  const TemporaryFolder folder_;
  const std::string teacher_;
  std::vector<double> teacher_aucs_;
  const std::vector<std::string> data_;
};

TEST_CASE("Attention reaches a teacher that models with pooled and raw sequences do not") {
  const std::string top = "layers: [{linear: 128}, relu, {linear: 64}, relu, {linear: 1}]}]";
  const std::string adam = "optimizer: {kind: adam, learning_rate: 0.005}}";
  const TaughtData data("sequence", 100'000);
  data.CheckReach({"sequence", "din", "bst"});
  data.CheckMiss(
      "sequence",
      {
          // Sum pooling, with a factorisation machine.
          {"features.1={name: seen, table: item}",
           "model.towers=[{name: fm, input: embeddings, layers: [{fm: 8}]}, "
           "{name: top, input: [fm, embeddings], " +
               top},
          // The dot products of the item and all places, whose rows are of a table of their own.
          {"tables.1={name: seen, dim: 8, initializer: {low: -0.5, high: 0.5}, " + adam,
           "features.1={name: seen, pooling: raw, max_length: 20, mask: true}",
           "model.towers=[{name: dot, input: embeddings, layers: [{dot: 8}]}, "
           "{name: top, input: [embeddings, dot, dense], " +
               top},
      });
}

TEST_CASE("A mixture of experts reaches a teacher that wider models without one do not") {
  const std::string top = "{linear: 256}, relu, {linear: 128}, relu, {linear: 2}]}]";
  const std::string inputs = "model.towers=[{name: top, input: [dense, embeddings], layers: [";
  const TaughtData data("experts", 150'000);
  data.CheckReach({"experts", "mmoe", "ple"});
  data.CheckMiss("experts", {{inputs + top}, {inputs + "cross, cross, " + top}});
}

TEST_CASE("The product of two probabilities reaches a teacher of purchases after clicks") {
  TaughtData("purchases", 100'000).CheckReach({"esmm"}, 0.04);
}

}  // namespace
}  // namespace simurgh::testing
