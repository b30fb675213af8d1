#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "base/text.h"
#include "config/cluster_config.h"
#include "config/sections.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

using Overrides = std::vector<std::string>;

ClusterConfig ConfigWith(const Overrides& overrides) {
  StatusOr<ClusterConfig> config = ParseClusterConfig(kSample, kSamplePath, overrides);
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  return *std::move(config);
}

using Agreement = std::string (*)(const ClusterConfig&);

std::string Difference(Agreement agreement, const Overrides& overrides) {
  return SettingsDifference(agreement(ConfigWith({})), "own", agreement(ConfigWith(overrides)),
                            "peer");
}

}  // namespace

TEST_CASE("Settings differ by key, with both values, defaults and a bound", "[config]") {
  const std::string own = "a.N.x = 1\na.0.x = 2\nb = p = q\n";
  CHECK(SettingsDifference(own, "own", own, "peer").empty());
  CHECK(SettingsDifference(own, "own", "a.N.x = 1\nb = p = q\na.0.x = 2\n", "peer").empty());
  CHECK(SettingsDifference(own, "own", "a.N.x = 1\nb = p\n", "peer") ==
        "a.0.x = 2 (own), 1 (peer); b = p = q (own), p (peer)");
  CHECK(SettingsDifference("", "own", "a\x1b = \x7f\n", "peer") ==
        "a\\x1b = none (own), \\x7f (peer)");
  // Recorded settings have no other bytes than ASCII.
  CHECK(SettingsDifference("", "own", "a = gr\\xc3\\xbcn \\xff \\x1b\n", "peer") ==
        "a = none (own), gr\xc3\xbcn \\xff \\x1b (peer)");
  std::string many;
  for (int i = 0; i < 9; ++i) {
    many += "k" + std::to_string(i) + " = " + std::string(1'000, 'v') + "\n";
  }
  const std::string difference = SettingsDifference("", "own", many, "peer");
  CHECK_THAT(difference, Catch::EndsWith("; and 4 more"));
  CHECK(difference.size() < 1'200);
}

TEST_CASE("What daemons must agree on is named with both values", "[config]") {
  const std::vector<std::pair<Overrides, std::string>> cases = {
      {{"cluster.name=other"}, "cluster.name = sample (own), other (peer)"},
      {{"cluster.seed=8"}, "cluster.seed = 7 (own), 8 (peer)"},
      {{"embedding_ps.partitions=4"}, "embedding_ps.partitions = 3 (own), 4 (peer)"},
      {{"embedding_ps.instances.2.address=127.0.0.1:7403"},
       "embedding_ps.instances = 2 elements (own), 3 elements (peer)"},
      {{"tables.0.dim=5"}, "tables.0.dim = 4 (own), 5 (peer)"},
      {{"tables.0.eviction={small_norm: {below: 0.5}}"},
       "tables.0.eviction.small_norm.below = 0 (own), 0.5 (peer)"},
      {{"tables.0.eviction={idle_time: 9s}"}, "tables.0.eviction.idle_time = 0s (own), 9s (peer)"},
      {{"tables.0.optimizer.row_wise=false"},
       "tables.0.optimizer.row_wise = true (own), false (peer)"},
      {{"features.1.column=age"}, "features.1.column = items (own), age (peer)"},
      {{"features.3.vocabulary=[a, b]"}, "features.3.vocabulary = [] (own), [\"a\", \"b\"] (peer)"},
  };
  for (const auto& [overrides, difference] : cases) {
    INFO(overrides[0]);
    CHECK(Difference(ClusterAgreement, overrides) == difference);
  }
}

TEST_CASE("Daemons need not agree on addresses, threads, training and learning rates", "[config]") {
  for (const char* change :
       {"cluster.token_file=LICENSE", "training.epochs=2",
        "training.dense_optimizer.learning_rate=1",
        "embedding_ps.instances.0.address=127.0.0.1:9000", "embedding_ps.instances.0.metrics=a:1",
        "embedding_ps.arena_directory=/tmp", "embedding_ps.numa_nodes=[1]",
        "embedding_worker.threads=3", "rpc.call_timeout=1s", "data.train=[CMakePresets.json]",
        "nn_worker.threads=2", "tables.0.optimizer.learning_rate=0.25",
        "tables.0.optimizer.schedule={kind: cosine}"}) {
    INFO(change);
    CHECK(Difference(ClusterAgreement, {change}).empty());
  }
}

TEST_CASE("Only processes that read data must agree on the words of a file", "[config]") {
  const TemporaryFolder folder;
  const std::string key = "features.3.vocabulary_file";
  const std::string one = key + "=" + folder.Write("one", "a\nb\n");
  const std::string two = key + "=" + folder.Write("two", "a\nc\n");
  CHECK(ClusterAgreement(ConfigWith({one})) == ClusterAgreement(ConfigWith({two})));
  CHECK(InputAgreement(ConfigWith({one})) != InputAgreement(ConfigWith({two})));
  CHECK(TrainingAgreement(ConfigWith({one})) != TrainingAgreement(ConfigWith({two})));
  CHECK(ModelAgreement(ConfigWith({one})) != ModelAgreement(ConfigWith({two})));

  // Without the file.
  const StatusOr<ClusterConfig> without =
      ParseClusterConfig(kSample, kSamplePath,
                         {key + "=nowhere", "features.3.oov_ids=7", "data.train=[nowhere]",
                          "data.test=[nowhere]", "data.validation=[nowhere]"},
                         InputFiles::kIgnore);
  INFO(without.status().ToString());
  REQUIRE(without.ok());
  CHECK(ClusterAgreement(*without) == ClusterAgreement(ConfigWith({one, "features.3.oov_ids=7"})));
}

TEST_CASE("A model of an older program lacks keys that are at their defaults now", "[config]") {
  const ClusterConfig config = ConfigWith({});
  std::string old;
  for (const absl::string_view line : absl::StrSplit(ModelAgreement(config), '\n')) {
    if (!absl::StrContains(line, ".date_order = ") && !line.empty()) {
      absl::StrAppend(&old, line, "\n");
    }
  }
  REQUIRE(old != ModelAgreement(config));
  CHECK(ModelAgreement(config, old) == old);
  CHECK(ModelAgreement(config, ModelAgreement(config)) == ModelAgreement(config));
  CHECK(ModelAgreement(ConfigWith({"cluster.seed=12345"}), old) != old);
}

TEST_CASE("What ranks must agree on is named", "[config]") {
  const std::vector<Overrides> changes = {
      {"model.towers.1.input=[embeddings, bottom]"},
      {"model.towers.1.layers.0={linear: 33}"},
      {"model.towers.1.layers.2=gelu"},
      {"model.towers.0.layers.1.batch_norm.momentum=0.3"},
      {"model.loss={kind: focal}"},
      {"training.mode=naive_hybrid"},
      {"training.batch_size=65"},
      {"training.staleness=5"},
      {"training.allreduce.bucket_bytes=65536"},
      {"training.dense_optimizer.learning_rate=0.10000005"},
      {"training.dense_optimizer.schedule={warmup_steps: 9}"},
      {"tables.0.optimizer.learning_rate=0.25"},
      {"tables.0.optimizer.schedule={kind: cosine}"},
      {"data.train=[CMakePresets.json]"},
      {"data.test=[CMakePresets.json]"},
      {"data.on_bad_row=skip", "data.max_bad_share=0.5"},
      {"nn_worker.instances=[{address: \"a:1\"}]", "loaders.instances=[{}]"},
  };
  for (const Overrides& overrides : changes) {
    INFO(overrides[0]);
    const std::string section = overrides.back().substr(0, overrides.back().find('.'));
    CHECK_THAT(Difference(TrainingAgreement, overrides), Catch::Contains(section + "."));
  }
  for (const char* change :
       {"nn_worker.threads=2", "training.progress_interval=9s", "training.retry_deadline=9s",
        "training.loader_queue_batches=2", "data.train=[./CMakeLists.txt]"}) {
    INFO(change);
    CHECK(Difference(TrainingAgreement, {change}).empty());
  }
}

TEST_CASE("A training continues with files of other headers", "[config]") {
  const std::string header = "data.csv.header=true";
  for (const char* change : {"data.csv.strict=true", "data.columns.0.header_name=the age"}) {
    CHECK(ModelAgreement(ConfigWith({header, change})) == ModelAgreement(ConfigWith({header})));
    CHECK(InputAgreement(ConfigWith({header, change})) != InputAgreement(ConfigWith({header})));
  }
}

TEST_CASE("Loaders agree with ranks on what decides batches", "[config]") {
  CHECK(Difference(InputAgreement, {"training.batch_size=65"}) ==
        "training.batch_size = 64 (own), 65 (peer)");
  CHECK(Difference(InputAgreement, {"data.columns.0.missing=3"}) ==
        "data.columns.0.missing = -1 (own), 3 (peer)");
  CHECK_THAT(Difference(InputAgreement, {"data.train=[CMakeLists.txt, README.md]"}),
             Catch::Contains("data.train = [\"CMakeLists.txt\"] (own), "
                             "[\"CMakeLists.txt\", \"README.md\"] (peer)") &&
                 Catch::Contains("data.train, sizes = "));
  for (const char* change : {"data.test=[CMakePresets.json]", "training.staleness=5",
                             "training.max_steps=9", "rpc.call_timeout=1s"}) {
    INFO(change);
    CHECK(Difference(InputAgreement, {change}).empty());
  }
}

TEST_CASE("Files are compared by name, size and content, statistics by value", "[config]") {
  TemporaryFolder one, other;
  const auto parse = [](const TemporaryFolder& folder) {
    return ConfigWith({"data.train=[" + folder.Path("rows.csv") + ", CMakeLists.txt]",
                       "data.columns.0={name: age, kind: dense, fit: true}",
                       "data.derived=[{name: soft, columns: [age], plugin: {path: " +
                           folder.Path("bins.so") + ", parameters: [1]}}]",
                       "features.3.plugin.path=" + folder.Path("bins.so"),
                       "features.4={name: old, column: age, quantiles: 4, table: city}"});
  };
  for (TemporaryFolder* folder : {&one, &other}) {
    folder->Write("rows.csv", "1;2\n");
    folder->Write("bins.so", "code");
  }
  const ClusterConfig config = parse(one);
  const auto differing = [&](const ClusterConfig& changed) {
    return SettingsDifference(InputAgreement(config), "a", InputAgreement(changed), "b");
  };
  CHECK(differing(parse(other)).empty());
  CHECK(ClusterAgreement(config) == ClusterAgreement(parse(other)));
  ClusterConfig fitted = config;
  fitted.data.columns[0].mean = 1.6e9 + 1;
  CHECK(differing(fitted) == "statistics, columns.age = 0, 1 (a), 1600000001, 1 (b)");
  fitted = config;
  fitted.features[4].processing.boundaries = {1, 2};
  CHECK(differing(fitted) == "statistics, features.old =  (a), 1, 2 (b)");
  other.Write("rows.csv", "1;2\n3;4\n");
  CHECK_THAT(differing(parse(other)), Catch::StartsWith("data.train, sizes = 4, "));
  other.Write("rows.csv", "1;2\n");
  other.Write("bins.so", "edoc");
  CHECK_THAT(differing(parse(other)),
             Catch::Contains("data.derived.0.plugin.path, content = XXH3") &&
                 Catch::Contains("features.3.plugin.path, content = XXH3"));
}

TEST_CASE("Settings that are too large for a HELLO are an error", "[config]") {
  std::string tables = "tables=[";
  std::string features = "features=[";
  for (int i = 0; i < 4'000; ++i) {
    const std::string name = std::string(40, 'n') + std::to_string(i);
    tables += "{name: " + name + "}, ";
    features += "{name: " + name + ", column: city}, ";
  }
  const auto config =
      ParseClusterConfig(kSample, kSamplePath,
                         {tables + "]", features + "]", "data.columns.2={name: items}",
                          "data.columns.3={name: shop}"});
  CHECK_THAT(std::string(config.status().message()), Catch::Contains("use at most 262144"));
}

}  // namespace simurgh
