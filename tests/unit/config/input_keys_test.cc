#include "simurgh/config/input_keys.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "config/document.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

using Keys = std::vector<std::string>;

ClusterConfig ConfigWith(const std::vector<std::string>& overrides) {
  StatusOr<ClusterConfig> config = ParseClusterConfig(kSample, kSamplePath, overrides);
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  return *std::move(config);
}

// A sample with everything that files and plug-ins decide.
class Fixture {
 protected:
  Fixture() {
    one_.Write("rows.csv", "1;2\n");
    other_.Write("rows.csv", "1;2\n");
    one_.Write("bins.so", "code");
    other_.Write("bins.so", "code");
  }

  ClusterConfig Parse(const TemporaryFolder& folder) const {
    return ConfigWith({"data.train=[" + folder.Path("rows.csv") + ", CMakeLists.txt]",
                       "data.csv.columns.0={name: age, kind: dense, fit: true}",
                       "data.derived=[{name: soft, columns: [age], plugin: {path: " +
                           folder.Path("bins.so") + ", parameters: [1]}}]",
                       "features.3.plugin.path=" + folder.Path("bins.so"),
                       "features.4={name: old, column: age, quantiles: 4, table: city}"});
  }

  TemporaryFolder one_, other_;
};

TEST_CASE("Every key that decides on batches is told by its name", "[config]") {
  struct Case {
    const char* change;
    Keys differing;
  };
  const std::vector<Case> cases = {
      {"training.batch_size=65", {"training.batch_size"}},
      {"training.epochs=2", {"training.epochs"}},
      {"training.drop_last=true", {"training.drop_last"}},
      {"training.keep_negatives=0.5", {"training.keep_negatives"}},
      {"data.bad_rows=skip", {"data.bad_rows"}},
      {"data.csv.separator='^'", {"data.csv.separator"}},
      {"data.csv.header=true", {"data.csv.header"}},
      {"data.csv.missing_values=[none]", {"data.csv.missing_values"}},
      {"data.csv.columns.0.missing=3", {"data.csv.columns.0 (age)"}},
      {"data.csv.columns.0.transform=none", {"data.csv.columns.0 (age)"}},
      {"data.csv.columns.0.mean=3", {"data.csv.columns.0 (age), mean or stddev"}},
      {"data.csv.columns.0.stddev=3", {"data.csv.columns.0 (age), mean or stddev"}},
      {"data.csv.columns.2.separator=','", {"data.csv.columns.2 (items)"}},
      {"data.csv.columns.4.kind=dense", {"data.csv.columns.4 (note)"}},
      {"data.csv.columns.5.positive=[1]", {"data.csv.columns.5 (sold)"}},
      {"data.csv.columns.6={name: more}",
       {"data.csv.columns.6 (more)", "data.csv.columns.6 (more), mean or stddev"}},
      {"data.train=[CMakeLists.txt, README.md]",
       {"data.train, the files' names or order", "data.train, the files' sizes"}},
  };
  const std::vector<InputKey> keys = InputKeys(ConfigWith({}));
  CHECK(DifferingKeys(keys, InputKeys(ConfigWith({}))).empty());
  for (const Case& one : cases) {
    INFO(one.change);
    CHECK(DifferingKeys(InputKeys(ConfigWith({one.change})), keys) == one.differing);
  }
}

TEST_CASE("Formats, and what Criteo's has, are told by name", "[config]") {
  const auto keys_of = [](const std::function<void(DataConfig&)>& change) {
    ClusterConfig config;
    change(config.data);
    return InputKeys(config);
  };
  const std::vector<InputKey> keys = keys_of([](DataConfig& /*data*/) {});
  const auto differing = [&](const std::function<void(DataConfig&)>& change) {
    return DifferingKeys(keys_of(change), keys);
  };
  CHECK(differing([](DataConfig& data) { data.format = DataConfig::Format::kCriteo; }) ==
        Keys{"data.format"});
  CHECK(differing([](DataConfig& data) { data.criteo.labels = 2; }) == Keys{"data.criteo.labels"});
  CHECK(differing([](DataConfig& data) { data.criteo.fit = true; }) == Keys{"data.criteo.fit"});
  const Keys statistics{"data.criteo.fit, mean and stddev of the training files"};
  CHECK(differing([](DataConfig& data) { data.criteo.mean = {1}; }) == statistics);
  CHECK(differing([](DataConfig& data) { data.criteo.stddev = {1}; }) == statistics);
}

TEST_CASE_METHOD(Fixture, "What a process has for itself is no key", "[config]") {
  CHECK(DifferingKeys(InputKeys(Parse(one_)), InputKeys(Parse(other_))).empty());
  const std::vector<InputKey> keys = InputKeys(ConfigWith({}));
  for (const char* change :
       {"data.test=[CMakePresets.json]", "data.train=[./CMakeLists.txt]", "training.staleness=5",
        "training.loader_queue_batches=2", "training.max_steps=9", "embedding_worker.threads=3",
        "rpc.call_timeout=1s"}) {
    INFO(change);
    CHECK(DifferingKeys(InputKeys(ConfigWith({change})), keys).empty());
  }
}

TEST_CASE_METHOD(Fixture, "Other files, plug-ins or statistics are told by name", "[config]") {
  const ClusterConfig config = Parse(one_);
  const std::vector<InputKey> keys = InputKeys(config);
  const auto differing = [&](const std::function<void(ClusterConfig&)>& change) {
    ClusterConfig changed = config;
    change(changed);
    return DifferingKeys(InputKeys(changed), keys);
  };
  CHECK(differing([](ClusterConfig& c) { std::swap(c.data.train[0], c.data.train[1]); }) ==
        Keys{"data.train, the files' names or order", "data.train, the files' sizes"});
  const Keys fitted{"data.csv.columns.0 (age), mean and stddev of the training files"};
  CHECK(differing([](ClusterConfig& c) { c.data.csv.columns[0].mean = 40; }) == fitted);
  CHECK(differing([](ClusterConfig& c) { c.data.csv.columns[0].stddev = 4; }) == fitted);
  CHECK(differing([](ClusterConfig& c) { c.features[4].processing.boundaries = {1, 2}; }) ==
        Keys{"features.4 (old).quantiles, those of the training files"});
  // What no float tells apart differs as well.
  const auto with = [&config](double number) {
    ClusterConfig changed = config;
    changed.data.csv.columns[0].mean = number;
    changed.features[4].processing.boundaries = {number};
    return InputKeys(changed);
  };
  CHECK(DifferingKeys(with(1.6e9), with(1.6e9 + 1)) ==
        Keys{fitted[0], "features.4 (old).quantiles, those of the training files"});
  CHECK(differing([](ClusterConfig& c) { c.data.derived[0].width = 2; }) ==
        Keys{"data.derived.0 (soft)"});
  CHECK(differing([](ClusterConfig& c) { c.data.derived[0].columns = {"sold"}; }) ==
        Keys{"data.derived.0 (soft)"});
  CHECK(differing([](ClusterConfig& c) { c.data.derived[0].plugin.parameters = {"2"}; }) ==
        Keys{"data.derived.0 (soft).plugin"});
  CHECK(differing([](ClusterConfig& c) { c.features[3].processing.plugin.parameters = {"2"}; }) ==
        Keys{"features.3 (shop).plugin"});

  other_.Write("rows.csv", "1;2\n3;4\n");
  CHECK(DifferingKeys(InputKeys(Parse(other_)), keys) == Keys{"data.train, the files' sizes"});
  other_.Write("rows.csv", "1;2\n");
  const Keys plugins{"data.derived.0 (soft).plugin.path, the file's content",
                     "features.3 (shop).plugin.path, the file's content"};
  other_.Write("bins.so", "edoc");
  CHECK(DifferingKeys(InputKeys(Parse(other_)), keys) == plugins);
}

TEST_CASE("A key that only one of two has differs", "[config]") {
  const std::vector<InputKey> both{{"a", 1}, {"b", 2}};
  CHECK(DifferingKeys(both, {{"b", 2}, {"c", 3}}) == Keys{"a", "c"});
  CHECK(DifferingKeys(both, {{"b", 3}, {"a", 1}}) == Keys{"b"});
}

}  // namespace
}  // namespace simurgh
