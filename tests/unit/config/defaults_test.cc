// Defaults are one set: a key that is not given has the same value whatever else is given.

#include "config/defaults.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "config/sections.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

std::string File(size_t ids, const std::string& more = "") {
  std::string columns;
  for (size_t i = 0; i < ids; ++i) absl::StrAppend(&columns, ", {name: c", i, ", kind: id}");
  return absl::StrCat(
      "data: {train: [CMakeLists.txt], validation: [CMakeLists.txt], csv: {header: true}, columns: "
      "[{name: y, kind: label}, {name: x, kind: dense}",
      columns, "]}\nmodel: deepfm\n", more);
}

StatusOr<ClusterConfig> Parse(const std::string& text,
                              const std::vector<std::string>& overrides = {}) {
  return ParseClusterConfig(text, kSamplePath, overrides);
}

ClusterConfig Parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const StatusOr<ClusterConfig> config = Parse(text, overrides);
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  return *config;
}

// All that training makes of tables, the model and the optimizers.
std::string Text(const ClusterConfig& config) {
  std::string text;
  for (const TableConfig& table : config.tables) {
    const SparseOptimizerConfig& o = table.optimizer;
    const InitializerConfig& i = table.initializer;
    absl::StrAppend(&text, table.name, " ", table.dim, " ", table.capacity_rows, " ",
                    table.weight_bound, " ", static_cast<int>(i.kind), " ", i.low, " ", i.high, " ",
                    i.stddev);
    absl::StrAppend(&text, " ", static_cast<int>(o.kind), " ", o.learning_rate, " ", o.row_wise,
                    " ", o.epsilon, " ", o.initial_accumulator, " ", o.beta, " ", o.l2, "\n");
  }
  for (const FeatureConfig& feature : config.features) {
    absl::StrAppend(&text, feature.name, " ", feature.table, "\n");
  }
  for (const TowerConfig& tower : config.model.towers) {
    for (const LayerConfig& layer : tower.layers) {
      absl::StrAppend(&text, tower.name, " ", static_cast<int>(layer.kind), " ", layer.width, "\n");
    }
  }
  const TrainingConfig& t = config.training;
  const DenseOptimizerConfig& d = t.dense_optimizer;
  absl::StrAppend(&text, t.batch_size, " ", t.epochs, " ", t.evaluate_every_epochs, " ",
                  t.evaluate_every_steps, " ", t.early_stopping.patience, " ", t.staleness, "\n");
  absl::StrAppend(&text, static_cast<int>(d.kind), " ", d.learning_rate, " ", d.average_decay, " ",
                  d.beta1, " ", d.epsilon, " ", config.checkpoint.keep_best, "\n");
  return text;
}

// `{a: {b: VALUE}}` of "a.b".
std::string Nested(const std::string& key, const std::string& value) {
  std::string text = value;
  std::vector<std::string> parts = absl::StrSplit(key, '.');
  for (; !parts.empty(); parts.pop_back()) {
    text = absl::StrCat("{", parts.back(), ": ", text, "}");
  }
  return text;
}

}  // namespace

TEST_CASE("A default that is written changes nothing", "[config]") {
  const ClusterConfig base = Parsed(File(2));
  const std::string expected = Text(base);
  size_t written = 0;
  for (const KnownKey& key : KnownKeys()) {
    // The defaults of these three depend on data.validation.
    std::string value = key.fallback;
    if (key.key == "training.epochs") value = "20";
    if (key.key == "training.evaluate_every_epochs") value = "1";
    if (key.key == "training.early_stopping.patience") value = "2";
    // The file gives these.
    if (key.key == "data.validation" || key.key == "data.train" || key.key == "data.csv.header") {
      continue;
    }
    if (absl::StrContains(value, ' ') || value == "none" || value == "required" || value.empty()) {
      continue;
    }
    std::string override_text = absl::StrCat(key.key, "=", value);
    constexpr char kTable[] = "tables.N.";
    if (absl::StartsWith(key.key, kTable)) {
      const std::string nested = Nested(key.key.substr(sizeof(kTable) - 1), value);
      override_text = absl::StrCat("tables=[{name: c0, ", nested.substr(1), "]");
    } else if (absl::StrContains(key.key, ".N")) {
      continue;
    }
    const StatusOr<ClusterConfig> config = Parse(File(2), {override_text});
    if (!config.ok()) continue;  // It has no effect without another key.
    INFO(override_text);
    // A table that is named comes first.
    std::string text = Text(*config);
    CHECK(text == expected);
    CHECK(config->features.size() == base.features.size());
    ++written;
  }
  CHECK(written > 60);
}

TEST_CASE("One key of an optimizer leaves the others", "[config]") {
  const ClusterConfig rate =
      Parsed(File(2), {"training.dense_optimizer.learning_rate=0.2", "tables=[{name: c0, dim: 4}]",
                       "model={wide_deep: }"});
  CHECK(rate.training.dense_optimizer.kind == DenseOptimizerConfig::Kind::kAdam);
  CHECK(rate.training.dense_optimizer.learning_rate == 0.2F);
  REQUIRE(rate.tables[0].name == "c0");
  CHECK(rate.tables[0].optimizer.kind == SparseOptimizerConfig::Kind::kAdam);
  CHECK(rate.tables[0].optimizer.learning_rate == 0.003F);
  // Rates fit the kind.
  const ClusterConfig kinds = Parsed(File(2), {"training.dense_optimizer.kind=sgd",
                                               "tables=[{name: c0, optimizer: {kind: adagrad}}]"});
  CHECK(kinds.training.dense_optimizer.learning_rate == 0.1F);
  CHECK(kinds.tables[0].optimizer.learning_rate == 0.05F);
  CHECK_FALSE(kinds.tables[0].optimizer.row_wise);
}

TEST_CASE("Validation rows decide when training ends, unless keys say else", "[config]") {
  const auto check = [](const std::vector<std::string>& overrides, uint32_t epochs, uint32_t every,
                        uint32_t patience) {
    const ClusterConfig config = Parsed(File(2), overrides);
    CHECK(config.training.epochs == epochs);
    CHECK(config.training.evaluate_every_epochs == every);
    CHECK(config.training.early_stopping.patience == patience);
  };
  check({}, 20, 1, 2);
  check({"training.epochs=3"}, 3, 1, 2);
  check({"training.evaluate_every_steps=100"}, 1, 0, 0);
  check({"training.evaluate_every_epochs=0"}, 1, 0, 0);
  check({"training.early_stopping.patience=0"}, 20, 1, 0);
  check({"data.validation=[]"}, 1, 0, 0);
  check({"loaders.instances=[{}]", "nn_worker.instances=[{address: \"127.0.0.1:7421\"}]"}, 1, 0, 0);
}

TEST_CASE("Many features make the rates of tables smaller, unless they are given", "[config]") {
  const ClusterConfig few = Parsed(File(32));
  CHECK(few.tables[0].optimizer.learning_rate == 0.003F);
  CHECK(few.tables[0].initializer.high == 0.05F);
  const ClusterConfig many =
      Parsed(File(128), {"tables=[{name: c1, optimizer: {learning_rate: 0.5}, "
                         "initializer: {high: 0.25}}]"});
  REQUIRE(many.tables[0].name == "c1");
  CHECK(many.tables[0].optimizer.learning_rate == 0.5F);
  CHECK(many.tables[0].initializer.high == 0.25F);
  CHECK(many.tables[1].optimizer.learning_rate == Approx(0.003 / 4));
  CHECK(many.tables[1].initializer.high == Approx(0.05 / 2));
  // Weights of the first order, for batches of 128.
  const TableConfig& weight = many.tables.back();
  CHECK(weight.name == "c127_weight");
  CHECK(weight.optimizer.kind == SparseOptimizerConfig::Kind::kFtrl);
  CHECK(weight.optimizer.learning_rate == Approx(0.1 / 4));
  CHECK(weight.optimizer.beta == Approx(0.01));
  CHECK(weight.optimizer.l2 == Approx(0.02));
}

TEST_CASE("Labels of squared_error and weights are fitted, others are not", "[config]") {
  const auto fits = [](const std::vector<std::string>& overrides, size_t column) {
    return Parsed(File(2), overrides).data.columns[column].fit;
  };
  const std::string squared = "model.loss.kind=squared_error";
  CHECK_FALSE(fits({}, 0));
  CHECK(fits({squared}, 0));
  CHECK_FALSE(fits({squared, "data.columns.0.fit=false"}, 0));
  CHECK_FALSE(fits({squared, "data.columns.0.stddev=5"}, 0));
  CHECK_FALSE(fits({"model.loss.kind=poisson"}, 0));
  CHECK(fits({"data.columns.1.kind=weight"}, 1));
  CHECK_FALSE(fits({"data.columns.1={name: x, kind: weight, fit: false}"}, 1));
  const StatusOr<ClusterConfig> binary = Parse(File(2), {"data.columns.0.stddev=5"});
  CHECK(absl::StrContains(binary.status().message(),
                          "data.columns.0.stddev: a label is scaled with the loss squared_error "
                          "only; remove it"));
  const ClusterConfig pairs = Parsed(
      "data: {format: libsvm, train: [CMakeLists.txt]}\nmodel: {wide_deep: , loss: {kind: "
      "squared_error}}\n");
  CHECK(pairs.data.columns[0].fit);
}

}  // namespace simurgh
