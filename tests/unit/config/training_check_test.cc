#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "config/document.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

StatusOr<ClusterConfig> With(const std::vector<std::string>& overrides) {
  return ParseClusterConfig(kSample, kSamplePath, overrides);
}

std::string ErrorOf(const std::vector<std::string>& overrides) {
  const StatusOr<ClusterConfig> config = With(overrides);
  REQUIRE_FALSE(config.ok());
  const std::string message(config.status().message());
  return message.substr(message.find(": ") + 2);
}

}  // namespace

TEST_CASE("Stopping early needs something to judge by", "[config]") {
  const std::string patience = "training.early_stopping.patience=2";
  const std::string files = "data.validation=[CMakeLists.txt]";
  CHECK(With({patience, files, "training.evaluate_every_passes=1"}).ok());
  CHECK(With({patience, files, "training.evaluate_every_steps=1"}).ok());
  CHECK(ErrorOf({patience, "training.evaluate_every_passes=1"}) ==
        "training.early_stopping: there is no data to judge by; name files under data.validation: "
        "test files that decide about training no longer test it");
  CHECK(ErrorOf({patience, files}) ==
        "training.early_stopping: nothing is evaluated on the way; set "
        "training.evaluate_every_steps or evaluate_every_passes");
  CHECK(ErrorOf({"training.early_stopping.metric=log_loss"}) ==
        "training.early_stopping.metric: says nothing here; remove it; it belongs to patience "
        "above 0");
}

TEST_CASE("Modes refuse what they do not keep", "[config]") {
  CHECK(With({"training.mode=sync", "training.staleness=1", "training.reproducible=true"}).ok());
  CHECK(With({"training.mode=naive_hybrid", "training.staleness=4"}).ok());
  CHECK(ErrorOf({"training.mode=sync", "training.staleness=4"}) ==
        "training.staleness: is 4, and mode: sync has none; remove it, or choose mode: hybrid");
  CHECK(ErrorOf({"training.mode=naive_hybrid", "training.reproducible=true"}) ==
        "training.reproducible: is not for mode: naive_hybrid; choose mode: hybrid, or set it to "
        "false");
  CHECK(ErrorOf({"training.mode=async"}) ==
        "training.mode: 'async' is none of them; expected: one of sync, hybrid, naive_hybrid");
}

TEST_CASE("Groups of an evaluation are a feature's ids", "[config]") {
  CHECK(With({"training.auc_group_feature=seen"})->training.auc_group_feature == "seen");
  CHECK(ErrorOf({"training.auc_group_feature=sean"}) ==
        "training.auc_group_feature: 'sean' is no feature; the nearest feature is 'seen'");
}

TEST_CASE("Keys of one dense optimizer are refused with another", "[config]") {
  CHECK_THAT(ErrorOf({"training.dense_optimizer={kind: adagrad, momentum: 0.9}"}),
             Catch::EndsWith("training.dense_optimizer.momentum: says nothing here; remove it; it "
                             "belongs to kind: sgd"));
  CHECK_THAT(ErrorOf({"training.dense_optimizer={epsilon: 0.1}"}),
             Catch::EndsWith("training.dense_optimizer.epsilon: says nothing here; remove it; it "
                             "belongs to kind: adam, "
                             "adagrad or lamb"));
  CHECK_THAT(
      ErrorOf({"training.dense_optimizer={nesterov: true}"}),
      Catch::EndsWith(
          "training.dense_optimizer.nesterov: says nothing here; remove it; it belongs to momentum "
          "above 0"));
  const auto config =
      With({"training.dense_optimizer={kind: lamb, schedule: {kind: linear, end_factor: 0.5}}"});
  REQUIRE(config.ok());
  CHECK(config->training.dense_optimizer.schedule.kind == LearningRateSchedule::Kind::kLinear);
  CHECK(config->training.dense_optimizer.schedule.end_factor == 0.5F);
}

}  // namespace simurgh
