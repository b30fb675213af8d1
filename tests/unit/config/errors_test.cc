#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/stat.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/config/error_cases.h"
#include "tests/unit/config/sample.h"

namespace simurgh {

TEST_CASE("A pipe is read until its writer closes it", "[config]") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("pipe");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  std::thread writer([&] {
    std::ofstream pipe(path);
    pipe << "cluster:\n" << std::flush << "  nmae: x\n";
  });
  const Status status = LoadClusterConfig(path, {}).status();
  writer.join();
  CHECK_THAT(std::string(status.message()),
             Catch::Contains(path + ":2: cluster.nmae: unknown key"));
}

TEST_CASE("Keys: unknown, repeated, missing", "[config]") {
  CheckCases({
      {"batch_size: 64", "batchsize: 64", "batchsize",
       "training.batchsize: unknown key; the nearest known key is 'batch_size'"},
      {"training:", "trainig:", "trainig:",
       "trainig: unknown key; the nearest known key is 'training'"},
      {"row_wise: true", "row_wide: true", "row_wide",
       "tables.0.optimizer.row_wide: unknown key; the nearest known key is 'row_wise'"},
      {"format: csv", "format: csv\n  strict: true", "strict",
       "data.strict: unknown key; use data.csv.strict"},
      {"metrics: \"localhost", "metric: \"localhost", "metric: \"localhost",
       "nn_worker.instances.0.metric: unknown key; the nearest known key is 'metrics'"},
      {"  staleness: 4\n", "  staleness: 4\n  batch_size: 65\n", "batch_size: 65",
       "training.batch_size: given twice; keep one; the other is at sample.yaml:49"},
      {"  train: [CMakeLists.txt]\n", "",
       "data:", "data.train: missing; expected: list of 1 to 65536 paths of files"},
      {"{address: \"unix:///tmp/ps1.sock\"}", "{}", "- {}",
       "embedding_ps.instances.1.address: missing; expected: host:port, tcp://host:port, "
       "auto://host:port, unix:///path or shm:///path"},
      {"- {name: shop}", "- {column: shop, table: shop}", "- {column: shop",
       "features.3.name: missing; expected: name of 1 to 63 letters, digits, '_' or '-'"},
  });
}

TEST_CASE("Values: wrong type, out of range", "[config]") {
  CheckCases({
      {"name: sample", "name: Sample", "name: Sample",
       "cluster.name: 'Sample' is not a cluster name; expected: name of 1 to 63 of a-z, 0-9 and "
       "'-'"},
      {"batch_size: 64", "batch_size: many", "batch_size",
       "training.batch_size: 'many' is not an integer; expected: integer from 1 to 65535"},
      {"batch_size: 64", "batch_size: \"64\"", "batch_size",
       "training.batch_size: '64' in quotes is not an integer; expected: integer from 1 to 65535"},
      {"batch_size: 64", "batch_size: 65536", "batch_size",
       "training.batch_size: 65536 is out of range; use 1 to 65535"},
      {"batch_size: 64", "batch_size: -1", "batch_size",
       "training.batch_size: -1 is out of range; use 1 to 65535"},
      {"batch_size: 64", "batch_size: [64]", "batch_size",
       "training.batch_size: is a list; expected: integer from 1 to 65535"},
      {"batch_size: 64", "batch_size:", "batch_size",
       "training.batch_size: has no value; expected: integer from 1 to 65535"},
      {"seed: 7", "seed: 18446744073709551616", "seed",
       "cluster.seed: 18446744073709551616 is out of range; "
       "use 0 to 18446744073709551615"},
      {"drop_last: false", "drop_last: no", "drop_last",
       "training.drop_last: 'no' is not a boolean; expected: true or false"},
      {"stddev: 0.25", "stddev: 0", "{name: age",
       "data.columns.0.stddev: 0 is out of range; use 1.2e-38 to 3.4e38"},
      {"mean: 2", "mean: .nan", "{name: age",
       "data.columns.0.mean: '.nan' is not a finite number; expected: number from -3.4e38 to "
       "3.4e38"},
      {"mean: 2", "mean: inf", "{name: age",
       "data.columns.0.mean: 'inf' is not a finite number; expected: number from -3.4e38 to "
       "3.4e38"},
      {"mean: 2", "mean: 1e309", "{name: age",
       "data.columns.0.mean: 1e309 is out of range; use -3.4e38 to 3.4e38"},
      {"momentum: 0.2", "momentum: 1.5", "momentum",
       "model.towers.0.layers.1.batch_norm.momentum: 1.5 is out of range; "
       "use 1.2e-38 to 1"},
      {"batch_expiry: 90s", "batch_expiry: 90", "batch_expiry",
       "embedding_worker.batch_expiry: '90' is not a duration such as 50us, 500ms, 10s or 2m; "
       "expected: duration from 1ms to 60m"},
      {"batch_expiry: 90s", "batch_expiry: 61m", "batch_expiry",
       "embedding_worker.batch_expiry: 61m is out of range; "
       "use 1ms to 60m"},
      {"kind: adam,", "kind: adan,", "kind: adan",
       "training.dense_optimizer.kind: 'adan' is unknown; expected: one of sgd, adam, "
       "adagrad, "
       "lamb"},
      {"separator: \"|\"", "separator: \"||\"", "{name: items",
       "data.columns.2.separator: '||' is not a separator; "
       "expected: one ASCII character in double quotes, such as \"\\t\"; no quote, letter, digit "
       "or line end"},
      {"{name: shop}", "{name: \"a shop\", table: shop}", "a shop",
       "features.3.name: 'a shop' is not a name; "
       "expected: name of 1 to 63 letters, digits, '_' or '-'"},
  });
}

TEST_CASE("Sections and lists of the wrong shape", "[config]") {
  CheckCases({
      {"optimizer: {kind: adagrad, row_wise: true, epsilon: 1e-9}", "optimizer: adagrad",
       "optimizer: adagrad", "tables.0.optimizer: 'adagrad' is a value; give keys with values"},
      {"rpc: {connect_timeout: 500ms, max_frame_bytes: 65536}", "rpc: [1]", "rpc",
       "rpc: is a list; give keys with values"},
      {"train: [CMakeLists.txt]", "train: CMakeLists.txt",
       "train:", "data.train: is not a list; expected: list of 1 to 65536 paths of files"},
      {"train: [CMakeLists.txt]", "train: []",
       "train:", "data.train: has 0 elements; expected: list of 1 to 65536 paths of files"},
      {"train: [CMakeLists.txt]", "train: [[a]]",
       "train:", "data.train.0: is not a text; expected: paths of files"},
      {"[item, shop]", "[item, 'a b']", "[item",
       "tables.1.names.1: 'a b' is not a name; expected: names of 1 to 63 letters, digits, '_' or "
       "'-'"},
      {"    - {metrics: \"localhost:7521\"}\n", "    []\n", "instances:\n    []",
       "nn_worker.instances: has 0 elements; expected: list of 1 to 256 mappings"},
  });
}

TEST_CASE("Keys without effect and contradictory values are errors", "[config]") {
  CheckCases({
      {"stddev: 0.5", "low: 0", "low: 0",
       "tables.0.initializer.low: has no effect with kind: normal; remove it, or set kind: "
       "uniform"},
      {"{kind: normal, stddev: 0.5}", "{low: 0.5}", "low: 0.5",
       "tables.0.initializer.low: the interval from 0.5 to 0.05 is empty; "
       "make low smaller than high"},
      {"learning_rate: 0.5", "row_wise: true", "names: [item",
       "tables.1.optimizer.row_wise: has no effect with kind: sgd; remove it, or set kind: adagrad "
       "or adam"},
      {"learning_rate: 0.5", "nesterov: true", "names: [item",
       "tables.1.optimizer.nesterov: has no effect; remove it, or set momentum above 0"},
      {"dim: 4", "precision: f16\n    weight_bound: 65505", "weight_bound",
       "tables.0.weight_bound: 65505 is above the largest f16; use at most 65504, or precision: "
       "bf16"},
      {"capacity_rows: 1000", "capacity_rows: 1000\n    capacity_bytes: 9", "capacity_bytes",
       "tables.0.capacity_bytes: conflicts with capacity_rows; give one of them"},
      {"capacity_rows: 1000", "eviction: {low_use: {idle_steps: 9}}", "eviction",
       "tables.0.eviction.low_use.idle_steps: has no effect; remove it, or set below above 0"},
      {"learning_rate: 0.5", "schedule: {decay_steps: 10}", "names: [item",
       "tables.1.optimizer.schedule.decay_steps: has no effect with kind: constant; remove it, or "
       "set kind: linear, "
       "exponential or cosine"},
      {"learning_rate: 0.5", "schedule: {kind: cosine, decay_factor: 0.5}", "names: [item",
       "tables.1.optimizer.schedule.decay_factor: has no effect with kind: cosine; remove it, or "
       "set kind: "
       "exponential"},
      {"{kind: sgd, learning_rate: 0.5}", "{kind: ftrl, schedule: {kind: cosine}}", "names: [item",
       "tables.1.optimizer.schedule.end_factor: ftrl and group_ftrl divide by the learning rate; "
       "give an end_factor above 0"},
      {"{kind: normal, stddev: 0.5}", "{kind: gamma, stddev: 0.5}", "stddev",
       "tables.0.initializer.stddev: has no effect with kind: gamma; remove it, or set kind: "
       "normal or "
       "truncated_normal"},
      {"{kind: adam, learning_rate: 1e-3}", "{kind: sgd, beta1: 0.5}", "kind: sgd, beta1",
       "training.dense_optimizer.beta1: has no effect with kind: sgd; remove it, or set kind: adam "
       "or lamb"},
      {"{name: city, kind: id}", "{name: city, kind: id, mean: 1}", "{name: city, kind: id",
       "data.columns.1.mean: has no effect with kind: id; remove it, or set kind: dense"},
      {"names: [item, shop]", "name: item, names: [shop]", "name: item, names",
       "tables.1.name: conflicts with names; give either name or names"},
      {"rounds: 2, ", "", "buckets: 500",
       "features.0.hash_stack: one of rounds and buckets is 0, the other is not; "
       "give both, or neither to switch the hash stack off"},
      {"rounds: 2", "rounds: 9", "rounds: 9",
       "features.0.hash_stack.rounds: 9 is out of range; use 0 to 8"},
      {"rounds: 2", "rounds: 3", "rounds: 3",
       "features.0.hash_stack: needs 1500 rows, table 'city' holds 1000; "
       "lower rounds or buckets, or raise the table's capacity_rows"},
  });
}

TEST_CASE("One mistake is one error", "[config]") {
  CheckCases({
      {"{name: age, kind: dense", "{name: age, kind: dens", "{name: age",
       "data.columns.0.kind: 'dens' is unknown; expected: one of label, dense, id, skip, "
       "weight, group"},
      {"kind: label,", "kind: lable,", "{name: sold",
       "data.columns.5.kind: 'lable' is unknown; expected: one of label, dense, id, skip, "
       "weight, group"},
      {"stddev: 0.5", "low: 1", "low: 1",
       "tables.0.initializer.low: has no effect with kind: normal; remove it, or set kind: "
       "uniform"},
  });
  const std::string error =
      ErrorOf(Replaced(Replaced(kSample, "{name: city, hash_stack", "{name: c d, hash_stack"),
                       "{name: seen", "{name: s n"));
  CHECK(std::count(error.begin(), error.end(), '\n') == 1);
}

TEST_CASE("YAML that is no configuration", "[config]") {
  CheckCases({
      {"seed: 7}", "seed: 7", "embedding_ps",
       "YAML syntax: end of map flow not found; look at column 13: indentation, quotes, brackets"},
      {"{name: sample, seed: 7}", "{name: &a sample, seed: *a}", "*a",
       "YAML syntax: an alias (*name) is not supported; "
       "write the value out, or put it in quotes"},
      {"  - {name: city,", "\t- {name: city,", "\t- {name",
       "YAML syntax: illegal block entry; the line contains a tab; indent with spaces"},
      {"{name: shop}", "{[name]: shop}", "{[name]",
       "YAML syntax: a key that is not text; look at column 6: indentation, quotes, brackets"},
      {"training:", "---\ntraining:", "training:",
       "YAML syntax: a second document; keep one and remove the line ---"},
  });
  // yaml-cpp 0.8 adds the name.
  const std::string undefined = ErrorOf(Replaced(kSample, "seed: 7", "seed: *other"));
  CHECK(absl::StrContains(undefined, ": YAML syntax: the referenced anchor is not defined"));
  CHECK(undefined.ends_with("; write the value out, or put it in quotes"));
  CHECK(ErrorOf("- 1\n") == "sample.yaml:1: the document: is a list; give keys with values");
  CHECK(ErrorOf("text") == "sample.yaml:1: the document: 'text' is a value; give keys with values");
}

TEST_CASE("An empty file lacks every required key, at its first line", "[config]") {
  const std::string error = ErrorOf("");
  CHECK(error.starts_with("sample.yaml:1: data.train: missing; "));
  CHECK(error.find("model") == std::string::npos);  // A program may have the network.
}

TEST_CASE("Up to ten errors are reported at once", "[config]") {
  std::string text = Replaced(kSample, "staleness: 4", "staleness: 0");
  text = Replaced(text, "seed: 7", "seed: x");
  const std::string two = ErrorOf(text);
  CHECK(std::count(two.begin(), two.end(), '\n') == 1);
  CHECK(two.find("cluster.seed") < two.find("training.staleness"));

  std::string unknown = "training:\n";
  for (int i = 0; i < 12; ++i) absl::StrAppend(&unknown, "  k", i, ": 1\n");
  const std::string many = ErrorOf(Replaced(kSample, "training:\n", unknown));
  CHECK(std::count(many.begin(), many.end(), '\n') == 10);
  CHECK(many.ends_with("\nand 2 more"));
}

TEST_CASE("An error is one line of moderate length, whatever the file holds", "[config]") {
  const std::string control =
      ErrorOf(Replaced(kSample, "batch_size: 64", "batch_size: \"a\\nb\\u0007\""));
  CHECK(control.find("'a?b?' in quotes") != std::string::npos);
  const std::string long_key(100'000, 'k');
  CHECK(ErrorOf(Replaced(kSample, "batch_size", long_key)).size() < 2'000);
}

TEST_CASE("Files that are not there", "[config]") {
  CHECK(LoadClusterConfig("config/nowhere.yaml", {}).status().code() ==
        absl::StatusCode::kNotFound);
  const Status folder = LoadClusterConfig("config", {}).status();
  CHECK(folder.code() == absl::StatusCode::kInvalidArgument);
  CHECK(folder.message() == "config: a folder; name a YAML file in it");
}

}  // namespace simurgh
