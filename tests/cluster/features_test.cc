// Feature processing in training and evaluation, with the committed configurations.

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "data/reading/batch_reader.h"
#include "services/nn_worker/local_cluster.h"
#include "services/nn_worker/training_job.h"
#include "tests/support/skip.h"

namespace simurgh {
namespace {

const std::string kPlugin = SOFT_BINS_PLUGIN;
const std::vector<std::string> kWithPlugin = {"features.8.plugin.path=" + kPlugin,
                                              "data.derived.0.plugin.path=" + kPlugin};

ClusterConfig Load(const std::string& path, const std::vector<std::string>& overrides) {
  auto config = LoadClusterConfig(path, overrides);
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  return *std::move(config);
}

// In one process.
EvaluationResult Train(const ClusterConfig& config, std::string* metrics = nullptr) {
  MetricRegistry registry;
  const LearningRates rates(config.tables);
  auto cluster = LocalCluster::Create(config, registry, rates);
  REQUIRE(cluster.ok());
  auto job = TrainingJob::Create(config, registry);
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  const StatusOr<TrainResult> result =
      (*job)->Run(**cluster, (*cluster)->dense(), /*run=*/1, *NewLocalCollective(), {});
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  if (metrics != nullptr) *metrics = registry.Serialize();
  return *result->evaluation;
}

void RequireCalibrated(const ClusterConfig& config) {
  REQUIRE(config.training.keep_negatives == 0.5);
  const EvaluationResult result = Train(config);
  CHECK(result.samples == 16'281);
  CHECK(result.auc > 0.905);
  CHECK(result.auc < 0.925);
  // Half of the negatives were dropped; predictions are corrected for it.
  CHECK(result.calibration == Approx(1.0).margin(0.1));
}

TEST_CASE("adult-features.yaml reaches its AUC, predictions calibrated") {
  RequireCalibrated(Load("config/adult-features.yaml", {}));
}

TEST_CASE("adult-features.yaml reaches its AUC on the official files, too") {
  const std::string folder = "../shared/data/adult/";
  if (!std::filesystem::exists(folder + "adult.data")) {
    SIMURGH_SKIP("there is no folder " + folder);
  }
  const std::string absolute = std::filesystem::absolute(folder).string();
  RequireCalibrated(Load("config/adult-features.yaml", {"data.train=[" + absolute + "adult.data]",
                                                        "data.test=[" + absolute + "adult.test]"}));
}

TEST_CASE("A plug-in's ids and dense values train and evaluate") {
  const EvaluationResult result = Train(Load("config/adult-plugin.yaml", kWithPlugin));
  CHECK(result.samples == 16'281);
  CHECK(result.auc > 0.895);
  CHECK(result.auc < 0.925);
}

TEST_CASE("Rows that are left out are counted, of training and of evaluation apart") {
  std::vector<std::string> overrides = kWithPlugin;
  overrides.insert(overrides.end(),
                   {"data.on_bad_row=skip", "data.max_bad_share=1", "training.epochs=1",
                    "data.missing_values=[\"\"]", "features.1.missing=fail",
                    "features.1.vocabulary=[Bachelors, HS-grad, Some-college, Masters]",
                    "features.1.oov_ids=0"});
  std::string metrics;
  const EvaluationResult result = Train(Load("config/adult-plugin.yaml", overrides), &metrics);
  const uint64_t skipped = 16'281 - result.samples;
  CHECK(skipped > 1'000);
  CHECK_THAT(metrics, Catch::Contains("simurgh_nn_skipped_rows_total{data=\"test\"} " +
                                      std::to_string(skipped) + "\n"));
  CHECK_THAT(metrics, Catch::Contains("simurgh_nn_skipped_rows_total{data=\"train\"} "));
  CHECK_THAT(metrics, !Catch::Contains("simurgh_nn_skipped_rows_total{data=\"train\"} 0\n"));
}

// Train and evaluation read through one function; this holds them to it for every step there is.
TEST_CASE("The same rows are the same tensors in training and in evaluation, step by step") {
  const bool with_plugin = GENERATE(false, true);
  ClusterConfig config = with_plugin ? Load("config/adult-plugin.yaml", kWithPlugin)
                                     : Load("config/adult-features.yaml", {});
  config.data.test = config.data.train;
  REQUIRE(FitStatistics(config.data, config.features).ok());
  const auto open = [&](const std::vector<std::string>& files, const ReadOptions& options) {
    auto reader = OpenBatchReader(config.data, config.features, files, 1'000, options);
    REQUIRE(reader.ok());
    return *std::move(reader);
  };
  const auto train = open(config.data.train, {.keep_negatives = 1.0, .seed = config.seed});
  const auto test = open(config.data.test, {});
  size_t rows = 0;
  while (true) {
    const auto one = train->Next();
    const auto other = test->Next();
    REQUIRE((one.ok() && other.ok()));
    REQUIRE(one->has_value() == other->has_value());
    if (!one->has_value()) break;
    rows += (*one)->size();
    REQUIRE((*one)->dense.values == (*other)->dense.values);
    REQUIRE((*one)->dense.labels == (*other)->dense.labels);
    REQUIRE((*one)->sparse->ids == (*other)->sparse->ids);
    REQUIRE((*one)->sparse->occurrences == (*other)->sparse->occurrences);
    REQUIRE((*one)->sparse->offsets == (*other)->sparse->offsets);
    REQUIRE((*one)->sparse->weights == (*other)->sparse->weights);
  }
  CHECK(rows == 32'561);
}

}  // namespace
}  // namespace simurgh
