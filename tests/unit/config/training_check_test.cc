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
  CHECK(ErrorOf({"training.mode=asink"}) ==
        "training.mode: 'asink' is none of them; expected: one of sync, hybrid, naive_hybrid, "
        "async");
}

TEST_CASE("Mode async refuses what needs all weights or all ranks at once", "[config]") {
  const std::string async = "training.mode=async";
  CHECK(With({async, "training.staleness=4", "training.evaluate_every_steps=10"}).ok());
  for (const std::string optimizer : {"kind: lamb", "max_gradient_norm: 1", "average_decay: 0.9"}) {
    CHECK_THAT(
        ErrorOf({async, "training.dense_optimizer={" + optimizer + "}"}),
        Catch::Contains("training.dense_optimizer." + optimizer.substr(0, optimizer.find(':'))) &&
            Catch::Contains("is not for mode: async: servers step ranges of the dense "
                            "weights, each for itself"));
  }
  const std::string ranks = "nn_worker.instances=[{address: 'a:1'}, {address: 'a:2'}]";
  for (const std::string setting :
       {"reproducible=true", "sync_batch_norm=true", "allreduce.precision=bf16",
        "evaluate_every_steps=10", "evaluate_every_passes=1"}) {
    CAPTURE(setting);
    const std::string key = "training." + setting.substr(0, setting.find('='));
    CHECK_THAT(ErrorOf({async, ranks, "training." + setting}),
               Catch::Contains(key + ": is not for mode: async: "));
  }
}

TEST_CASE("Rows may only be used again where that fits the staleness", "[config]") {
  const std::string bytes = "embedding_worker.hot_row_bytes=1000000";
  const std::string age = "training.row_age_steps=3";
  const auto config = With({bytes, age});
  REQUIRE(config.ok());
  CHECK(config->embedding_worker.hot_row_bytes == 1'000'000);
  CHECK(config->training.row_age_steps == 3);
  CHECK(ErrorOf({age}) ==
        "training.row_age_steps: is of no use alone; set embedding_worker.hot_row_bytes and "
        "training.row_age_steps, or neither");
  CHECK(ErrorOf({bytes}) ==
        "embedding_worker.hot_row_bytes: is of no use alone; set embedding_worker.hot_row_bytes "
        "and training.row_age_steps, or neither");
  const std::string ruled_out =
      "training.row_age_steps: what pulls read would depend on what an embedding worker has kept, "
      "which mode: sync and reproducible: true rule out; remove it and "
      "embedding_worker.hot_row_bytes";
  CHECK(ErrorOf({bytes, age, "training.mode=sync", "training.staleness=1"}) == ruled_out);
  CHECK(ErrorOf({bytes, age, "training.reproducible=true"}) == ruled_out);
  CHECK(ErrorOf({bytes, "training.row_age_steps=4"}) ==
        "training.row_age_steps: is 4, which leaves nothing of training.staleness, 4, to batches; "
        "lower it, or raise the other");
  CHECK(ErrorOf({bytes, age, "tables.0.eviction.idle_steps=3"}) ==
        "tables.0.eviction.idle_steps: is 3, and servers do not hear of rows in use for "
        "training.row_age_steps; raise it above that");
  CHECK(With({bytes, age, "tables.0.eviction.idle_steps=4"}).ok());
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
