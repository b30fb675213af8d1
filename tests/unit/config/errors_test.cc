#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "config/document.h"
#include "simurgh/config/cluster_config.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  INFO("the sample has no '" << from << "'");
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// The line, from 1, on which `needle` begins.
int LineOf(const std::string& text, const std::string& needle) {
  const size_t at = text.find(needle);
  INFO("the text has no '" << needle << "'");
  REQUIRE(at != std::string::npos);
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(at), '\n'));
}

std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const StatusOr<ClusterConfig> config = ParseClusterConfig(text, kSamplePath, overrides);
  if (config.ok()) return "no error";
  CHECK(config.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

// One replacement in the sample, and the one line of error it must give: at the line of `at`.
struct Case {
  std::string from;
  std::string to;
  std::string at;
  std::string error;  // Behind the place.
};

void CheckCases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string text = Replaced(kSample, c.from, c.to);
    CHECK(ErrorOf(text) == absl::StrCat(kSamplePath, ":", LineOf(text, c.at), ": ", c.error));
  }
}

}  // namespace

TEST_CASE("Where rows lie: folders and nodes that cannot be", "[config]") {
  CheckCases({
      {"partitions: 3", "arena_directory: shm", "arena_directory",
       "embedding_ps.arena_directory: 'shm' is no such path; expected: absolute path of a folder"},
      {"partitions: 3", "numa_nodes: [0, 1024]", "numa_nodes",
       "embedding_ps.numa_nodes.1: '1024' is no such number; expected: integers from 0 to 1023"},
  });
}

TEST_CASE("Keys: unknown, repeated, missing", "[config]") {
  CheckCases({
      {"batch_size: 64", "batchsize: 64", "batchsize",
       "training.batchsize: unknown key; the nearest known key is 'batch_size'"},
      {"training:", "trainig:", "trainig:",
       "trainig: unknown key; the nearest known key is 'training'"},
      {"row_wise: true", "row_wide: true", "row_wide",
       "tables.0.optimizer.row_wide: unknown key; the nearest known key is 'row_wise'"},
      {"metrics: \"localhost", "address: \"localhost", "address: \"localhost",
       "nn_worker.instances.0.address: unknown key; the nearest known key is 'metrics'"},
      {"  staleness: 4\n", "  staleness: 4\n  batch_size: 65\n", "batch_size: 65",
       "training.batch_size: given twice; keep one; the other is at sample.yaml:49"},
      {"cluster: {name: sample, seed: 7}", "cluster: {seed: 7}", "cluster",
       "cluster.name: missing; expected: name of 1 to 63 of a-z, 0-9 and '-'"},
      {"cluster: {name: sample, seed: 7}\n", "", "embedding_ps",
       "cluster.name: missing; expected: name of 1 to 63 of a-z, 0-9 and '-'"},
      {"  train: [CMakeLists.txt]\n", "",
       "data:", "data.train: missing; expected: list of 1 to 65536: paths of files"},
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
       "cluster.name: 'Sample' is no such name; expected: name of 1 to 63 of a-z, 0-9 and '-'"},
      {"batch_size: 64", "batch_size: many", "batch_size",
       "training.batch_size: 'many' is not an integer; expected: integer from 1 to 65535"},
      {"batch_size: 64", "batch_size: \"64\"", "batch_size",
       "training.batch_size: '64' in quotes is not an integer; expected: integer from 1 to 65535"},
      {"batch_size: 64", "batch_size: 65536", "batch_size",
       "training.batch_size: 65536 is out of range; expected: integer from 1 to 65535"},
      {"batch_size: 64", "batch_size: -1", "batch_size",
       "training.batch_size: -1 is out of range; expected: integer from 1 to 65535"},
      {"batch_size: 64", "batch_size: [64]", "batch_size",
       "training.batch_size: a list; expected: integer from 1 to 65535"},
      {"batch_size: 64", "batch_size:", "batch_size",
       "training.batch_size: no value; expected: integer from 1 to 65535"},
      {"seed: 7", "seed: 18446744073709551616", "seed",
       "cluster.seed: 18446744073709551616 is out of range; "
       "expected: integer from 0 to 18446744073709551615"},
      {"drop_last: false", "drop_last: no", "drop_last",
       "training.drop_last: 'no' is neither; expected: true or false"},
      {"stddev: 0.25", "stddev: 0", "{name: age",
       "data.csv.columns.0.stddev: 0 is out of range; expected: number above 0"},
      {"mean: 2", "mean: .nan", "{name: age",
       "data.csv.columns.0.mean: '.nan' is not a finite number; expected: number"},
      {"mean: 2", "mean: inf", "{name: age",
       "data.csv.columns.0.mean: 'inf' is not a finite number; expected: number"},
      {"mean: 2", "mean: 1e39", "{name: age",
       "data.csv.columns.0.mean: 1e39 is out of range; expected: number"},
      {"momentum: 0.2", "momentum: 1.5", "momentum",
       "model.towers.0.layers.1.batch_norm.momentum: 1.5 is out of range; "
       "expected: number above 0, at most 1"},
      {"batch_expiry: 90s", "batch_expiry: 90", "batch_expiry",
       "embedding_worker.batch_expiry: '90' is not a duration; "
       "expected: duration from 1ms to 60m (a number and ms, s or m)"},
      {"batch_expiry: 90s", "batch_expiry: 61m", "batch_expiry",
       "embedding_worker.batch_expiry: 61m is out of range; "
       "expected: duration from 1ms to 60m (a number and ms, s or m)"},
      {"kind: adam,", "kind: adan,", "kind: adan",
       "training.dense_optimizer.kind: 'adan' is none of them; expected: one of sgd, adam"},
      {"separator: \"|\"", "separator: \"||\"", "{name: items",
       "data.csv.columns.2.separator: '||' cannot separate; "
       "expected: one ASCII character in quotes, no quote, letter, digit or line end"},
      {"{name: shop}", "{name: \"a shop\", table: shop}", "a shop",
       "features.3.name: 'a shop' is no name; "
       "expected: name of 1 to 63 letters, digits, '_' or '-'"},
  });
}

TEST_CASE("Sections and lists of the wrong shape", "[config]") {
  CheckCases({
      {"optimizer: {kind: adagrad, row_wise: true, epsilon: 1e-9}", "optimizer: adagrad",
       "optimizer: adagrad", "tables.0.optimizer: the value 'adagrad'; expected: keys with values"},
      {"rpc: {connect_timeout: 500ms, max_frame_bytes: 65536}", "rpc: [1]", "rpc",
       "rpc: a list; expected: keys with values"},
      {"train: [CMakeLists.txt]", "train: CMakeLists.txt",
       "train:", "data.train: not a list; expected: list of 1 to 65536: paths of files"},
      {"train: [CMakeLists.txt]", "train: []",
       "train:", "data.train: 0 elements; expected: list of 1 to 65536: paths of files"},
      {"train: [CMakeLists.txt]", "train: [[a]]",
       "train:", "data.train.0: not a text; expected: paths of files"},
      {"[item, shop]", "[item, 'a b']", "[item",
       "tables.1.names.1: 'a b' is no name; expected: table names"},
      {"    - {metrics: \"localhost:7521\"}\n", "    - {metrics: \"localhost:7521\"}\n    - {}\n",
       "instances:\n    - {metrics",
       "nn_worker.instances: 2 elements; "
       "expected: list of 1: mappings; this version trains with one rank"},
  });
}

TEST_CASE("Keys that say nothing, and values that contradict one another", "[config]") {
  CheckCases({
      {"stddev: 0.5", "low: 0", "low: 0",
       "tables.0.initializer.low: says nothing here; remove it; it belongs to kind: uniform"},
      {"{kind: normal, stddev: 0.5}", "{low: 0.5}", "low: 0.5",
       "tables.0.initializer.low: the interval from 0.5 to 0.01 is empty; "
       "make low smaller than high"},
      {"learning_rate: 0.5", "row_wise: true", "names: [item",
       "tables.1.optimizer.row_wise: says nothing here; remove it; "
       "it belongs to kind: adagrad or adam"},
      {"learning_rate: 0.5", "nesterov: true", "names: [item",
       "tables.1.optimizer.nesterov: says nothing here; remove it; "
       "it belongs to momentum above 0"},
      {"capacity_rows: 1000", "capacity_rows: 1000\n    capacity_bytes: 9", "capacity_bytes",
       "tables.0.capacity_bytes: stands beside capacity_rows; give either of them"},
      {"capacity_rows: 1000", "eviction: {low_use: {idle_steps: 9}}", "eviction",
       "tables.0.eviction.low_use.idle_steps: says nothing here; remove it; "
       "it belongs to below above 0"},
      {"learning_rate: 0.5", "schedule: {decay_steps: 10}", "names: [item",
       "tables.1.optimizer.schedule.decay_steps: says nothing here; remove it; "
       "it belongs to kind: linear, exponential or cosine"},
      {"learning_rate: 0.5", "schedule: {kind: cosine, decay_factor: 0.5}", "names: [item",
       "tables.1.optimizer.schedule.decay_factor: says nothing here; remove it; "
       "it belongs to kind: exponential"},
      {"{kind: sgd, learning_rate: 0.5}", "{kind: ftrl, schedule: {kind: cosine}}", "names: [item",
       "tables.1.optimizer.schedule.end_factor: ftrl and group_ftrl divide by the learning rate; "
       "give an end_factor above 0"},
      {"{kind: normal, stddev: 0.5}", "{kind: gamma, stddev: 0.5}", "stddev",
       "tables.0.initializer.stddev: says nothing here; remove it; "
       "it belongs to kind: normal or truncated_normal"},
      {"{kind: adam, learning_rate: 1e-3}", "{beta1: 0.5}", "beta1",
       "training.dense_optimizer.beta1: says nothing here; remove it; it belongs to kind: adam"},
      {"{name: city, kind: id}", "{name: city, kind: id, mean: 1}", "{name: city, kind: id",
       "data.csv.columns.1.mean: says nothing here; remove it; it belongs to kind: dense"},
      {"names: [item, shop]", "name: item, names: [shop]", "name: item, names",
       "tables.1.name: stands beside names; give either name or names"},
      {"rounds: 2, ", "", "buckets: 500",
       "features.0.hash_stack: one of rounds and buckets is 0, the other is not; "
       "give both, or neither to switch the hash stack off"},
      {"rounds: 2", "rounds: 9", "rounds: 9",
       "features.0.hash_stack.rounds: 9 is out of range; expected: integer from 0 to 8"},
      {"rounds: 2", "rounds: 3", "rounds: 3",
       "features.0.hash_stack: folds into 1500 rows, table 'city' holds 1000; "
       "lower rounds or buckets, or raise the table's capacity_rows"},
      {"separator: \"|\"", "separator: \";\"", "{name: items",
       "data.csv.columns.2.separator: the same as between columns; "
       "use another separator inside the cell"},
  });
}

TEST_CASE("Addresses", "[config]") {
  const auto bad = [](const std::string& address, const std::string& what) {
    CheckCases({{"unix:///tmp/ps1.sock", address, address,
                 absl::StrCat("embedding_ps.instances.1.address: ", what,
                              "; expected: host:port, tcp://host:port, auto://host:port, "
                              "unix:///path or shm:///path")}});
  };
  bad("localhost", "'localhost' has no port");
  bad(":7402", "':7402' has no valid host");
  bad("a b:7402", "'a b:7402' has no valid host");
  bad("::1:7402", "'::1:7402' has no valid host");
  bad("localhost:http", "the port of 'localhost:http' is not a number");
  bad("localhost:65536", "the port of 'localhost:65536' is above 65535 or below 0");
  bad("unix://ps.sock", "the path 'ps.sock' is not absolute");
  bad("shm:///" + std::string(99, 'x'), "the path has 100 bytes, more than 99");
  bad("tcp://localhost", "'localhost' has no port");
  bad("auto://localhost:65536", "the port of 'localhost:65536' is above 65535 or below 0");
  bad("udp://localhost:1", "'udp' is no scheme");
  CheckCases({
      {"127.0.0.1:7501", "unix:///tmp/m", "unix:///tmp/m",
       "embedding_ps.instances.0.metrics: 'unix:///tmp/m' has a scheme; expected: host:port"},
      {"[::1]:7411", "127.0.0.1:7401", "{address: \"127.0.0.1:7401\"}",
       "embedding_worker.instances.0.address: '127.0.0.1:7401' is taken by "
       "embedding_ps.instances.0.address; give every daemon addresses of its own"},
      {"[::1]:7411", "auto://127.0.0.1:7401", "{address: \"auto://127.0.0.1:7401\"}",
       "embedding_worker.instances.0.address: 'auto://127.0.0.1:7401' is taken by "
       "embedding_ps.instances.0.address; give every daemon addresses of its own"},
      {"localhost:7521", "127.0.0.1:7501", "{metrics: \"127.0.0.1:7501\"}",
       "nn_worker.instances.0.metrics: '127.0.0.1:7501' is taken by "
       "embedding_ps.instances.0.metrics; give every daemon addresses of its own"},
  });
}

TEST_CASE("Names taken twice", "[config]") {
  CheckCases({
      {"[item, shop]", "[item, city]", "[item, city]",
       "tables.1.names.1: 'city' is taken by tables.0.name; give every table a name of its own"},
      {"{name: seen,", "{name: bought,", "{name: bought, column: items, table: item}\n  - {name: s",
       "features.2.name: 'bought' is taken by features.1; give every feature a name of its own"},
      {"{name: note, kind", "{name: city, kind", "{name: city, kind: skip",
       "data.csv.columns.4.name: 'city' is taken by columns.1; "
       "give every column a name of its own"},
  });
}

TEST_CASE("Features, tables and columns that do not meet", "[config]") {
  CheckCases({
      {"table: item}", "table: items}", "table: items}",
       "features.1.table: no table is named 'items'; the nearest name is 'item'"},
      {"{name: city, hash_stack", "{name: city, column: cty, hash_stack", "column: cty",
       "features.0.column: no column is named 'cty'; the nearest id or dense column is 'city'\n"
       "sample.yaml:37: data.csv.columns.1: no feature uses id column 'city'; "
       "name it in a feature, or give it kind: skip"},
      {"{name: seen, column: items", "{name: seen, column: note", "column: note",
       "features.2.column: column 'note' is a skip column; "
       "the nearest id or dense column is 'age'"},
      {"{name: seen, column: items", "{name: seen, column: sold", "column: sold",
       "features.2.column: column 'sold' is a label column; "
       "the nearest id or dense column is 'shop'"},
      {"{name: note, kind: skip}", "{name: note, kind: id}", "{name: note",
       "data.csv.columns.4: no feature uses id column 'note'; "
       "name it in a feature, or give it kind: skip"},
      {"[item, shop]", "[item, spare, shop]", "[item, spare",
       "tables.1.names.1: no feature uses table 'spare'; "
       "remove the table, or name it in a feature"},
      {"kind: label, positive: [\"yes\", 1]", "kind: skip",
       "columns:", "data.csv.columns: no label; give one column kind: label"},
      {"{name: note, kind: skip}", "{name: note, kind: label}", "{name: sold",
       "data.csv.columns.5.kind: a second label, beside columns.4; keep one label"},
      {"format: csv", "format: criteo",
       "  csv:", "data.csv: says nothing here; remove it; it belongs to format: csv"},
  });
}

TEST_CASE("Embeddings together too wide for a layer", "[config]") {
  std::string text = Replaced(kSample, "dim: 16", "dim: 1024");
  std::string features = "features:\n";
  for (int i = 0; i < 63; ++i) {
    absl::StrAppend(&features, "  - {name: f", i, ", column: items, table: item}\n");
  }
  text = Replaced(text, "features:\n", features);
  CHECK(ErrorOf(text) ==
        "sample.yaml:25: features: the embeddings are 67588 wide together; "
        "use smaller dims or fewer features: at most 65536");
}

TEST_CASE("Models that do not hold together", "[config]") {
  CheckCases({
      {"input: dense", "input: dens", "input: dens",
       "model.towers.0.input: 'dens' is neither dense, embeddings nor an earlier tower; "
       "the nearest input is 'dense'"},
      {"input: dense", "input: top", "input: top",
       "model.towers.0.input: 'top' is neither dense, embeddings nor an earlier tower; "
       "the nearest input is 'dense'"},
      {"[bottom, embeddings]", "[bottom, bottom]", "[bottom, bottom]",
       "model.towers.1.input: 'bottom' stands more than once; name every input once"},
      {"[bottom, embeddings]", "embeddings", "{name: bottom",
       "model.towers.0.name: no later tower reads 'bottom'; "
       "name it in an input, or remove the tower"},
      {"[bottom, embeddings]", "bottom",
       "towers:", "model.towers: no tower reads embeddings; give a tower input: embeddings"},
      {"- name: top", "- name: bottom", "- name: bottom",
       "model.towers.1.name: 'bottom' is the name of an earlier tower; "
       "give every tower a name of its own"},
      {"- name: top", "- name: dense", "- name: dense",
       "model.towers.1.name: 'dense' is an input of the model; give the tower another name"},
      {"relu, {linear: 1}]", "relu, {linear: 2}]", "layers: [{linear: 32}",
       "model.towers.1.layers.3: the last tower must give one number, the logit; "
       "end its layers with {linear: 1} or sum; the loss applies the sigmoid"},
      {"relu, {linear: 1}]", "relu, {linear: 1}, sigmoid]", "layers: [{linear: 32}",
       "model.towers.1.layers.4: the last tower must give one number, the logit; "
       "end its layers with {linear: 1} or sum; the loss applies the sigmoid"},
      {"batch_norm, relu", "batchnorm, relu", "batchnorm",
       "model.towers.1.layers.1: 'batchnorm' is no layer; expected: {linear: width}, batch_norm, "
       "{batch_norm: {momentum, epsilon}}, relu, sigmoid, {dot: width}, {fm: width}, cross, "
       "{cross: {rank}} or sum"},
      {"{linear: 32}", "{}", "layers: [{}",
       "model.towers.1.layers.0: not one layer; expected: {linear: width}, batch_norm, "
       "{batch_norm: {momentum, epsilon}}, relu, sigmoid, {dot: width}, {fm: width}, cross, "
       "{cross: {rank}} or sum"},
      {"kind: dense, transform: log1p, mean: 2, stddev: 0.25, missing: -1", "kind: skip",
       "input: dense",
       "model.towers.0.input: 'dense' is neither dense, embeddings nor an earlier tower; "
       "the nearest input is 'embeddings'"},
  });
}

TEST_CASE("Data files that cannot be read", "[config]") {
  CheckCases({
      {"[CMakeLists.txt]", "[CMakeLists.txt,\n    nowhere.csv]", "nowhere.csv",
       "data.train.1: cannot read 'nowhere.csv': No such file or directory; "
       "give a path that is absolute or relative to the folder of the YAML file"},
      {"[CMakeLists.txt]", "[src]", "[src]",
       "data.train.0: cannot read 'src': it is a folder; "
       "give a path that is absolute or relative to the folder of the YAML file"},
  });
}

TEST_CASE("Security: files that are missing or of no use", "[config]") {
  const std::string limit = "max_frame_bytes: 65536}";
  const std::string two = "certificate: LICENSE, key: LICENSE";
  const auto with_tls = [](const std::string& security, const std::string& tls) {
    return "max_frame_bytes: 65536, security: " + security + ", tls: {" + tls + "}}";
  };
  CheckCases({
      {limit, with_tls("tls", two),
       "rpc:", "rpc.tls.authority: missing; expected: path of a PEM file"},
      {limit, with_tls("tls", two + ", authority: nowhere.pem"), "rpc:",
       "rpc.tls.authority: cannot read 'nowhere.pem': No such file or directory; "
       "give a path that is absolute or relative to the folder of the YAML file"},
      {limit, with_tls("tls", two + ", authority: ''"),
       "rpc:", "rpc.tls.authority: an empty text; expected: path of a PEM file"},
      {limit, with_tls("insecure", "key: LICENSE"),
       "rpc:", "rpc.tls.key: says nothing here; remove it; it belongs to security: tls"},
      {limit, "max_frame_bytes: 65536, security: none}",
       "rpc:", "rpc.security: 'none' is none of them; expected: one of loopback, tls, insecure"},
  });
  const std::string bare = Replaced(kSample, limit, "max_frame_bytes: 65536, security: tls}");
  CHECK_THAT(ErrorOf(bare), Catch::Contains("rpc.tls.certificate: missing") &&
                                Catch::Contains("rpc.tls.key: missing") &&
                                Catch::Contains("rpc.tls.authority: missing"));
}

TEST_CASE("YAML that is no configuration", "[config]") {
  CheckCases({
      {"seed: 7}", "seed: 7", "embedding_ps",
       "YAML syntax: end of map flow not found; look at column 13: indentation, quotes, brackets"},
      {"seed: 7", "seed: *other", "*other",
       "YAML syntax: the referenced anchor is not defined; "
       "look at column 31: indentation, quotes, brackets"},
      {"{name: sample, seed: 7}", "{name: &a sample, seed: *a}", "*a",
       "YAML syntax: an alias (*name) is not supported; "
       "look at column 34: indentation, quotes, brackets"},
      {"{name: shop}", "{[name]: shop}", "{[name]",
       "YAML syntax: a key that is not text; look at column 6: indentation, quotes, brackets"},
      {"training:", "---\ntraining:", "training:",
       "YAML syntax: a second document; keep one and remove the line ---"},
  });
  CHECK(ErrorOf("- 1\n") == "sample.yaml:1: the document: a list; expected: keys with values");
  CHECK(ErrorOf("text") ==
        "sample.yaml:1: the document: the value 'text'; expected: keys with values");
}

TEST_CASE("An empty file lacks every required key, at its first line", "[config]") {
  const std::string error = ErrorOf("");
  CHECK(error.starts_with("sample.yaml:1: cluster.name: missing; "));
  CHECK(error.find("\nsample.yaml:1: model.towers: missing; ") != std::string::npos);
}

TEST_CASE("Several errors come together, ten at most", "[config]") {
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
