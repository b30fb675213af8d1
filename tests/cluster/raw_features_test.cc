// Raw features from a file to the dense network and back, in one process.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "simurgh/base/random.h"
#include "simurgh/config/cluster_config.h"
#include "tests/cluster/standalone_run.h"
#include "tests/unit/data/data_files.h"

namespace simurgh::testing {
namespace {

// Lists of 0 to 7 ids that say nothing; the label is whether there are 3 or more.
std::string Rows(size_t count, uint64_t seed) {
  Random random(seed);
  std::string rows;
  for (size_t r = 0; r < count; ++r) {
    const uint64_t ids = random.Below(8);
    absl::StrAppend(&rows, ids >= 3 ? 1 : 0, ",");
    for (uint64_t i = 0; i < ids; ++i) absl::StrAppend(&rows, i > 0 ? " " : "", random.Below(50));
    absl::StrAppend(&rows, "\n");
  }
  return rows;
}

// Rows that begin as zeros and next to never change: the embeddings tell nothing.
std::string Config(const TemporaryFolder& folder, const std::string& input) {
  folder.Write("train.csv", Rows(4'000, 1));
  folder.Write("test.csv", Rows(1'000, 2));
  return folder.Write("raw.yaml", absl::StrCat(R"(

cluster: {name: raw, seed: 1}
embedding_ps: {instances: [{address: "127.0.0.1:1"}]}
embedding_worker: {instances: [{address: "127.0.0.1:8"}]}
nn_worker: {instances: [{address: "127.0.0.1:9"}]}
tables:
  - name: words
    dim: 2
    capacity_rows: 1000
    initializer: {kind: zero}
    optimizer: {kind: sgd, learning_rate: 1e-9}
features: [{name: words, pooling: raw, max_length: 5, mask: true}]
data:
  train: [train.csv]
  test: [test.csv]
  csv: {columns: [{name: label, kind: label}, {name: words, kind: id, separator: " "}]}
model: {towers: [{name: top, input: [)",
                                               input, R"(], layers: [{linear: 1}]}]}
training: {batch_size: 100, passes: 5}
)"));
}

TEST_CASE("From masks a model learns how long lists are, and has nothing else to learn it from") {
  const TemporaryFolder folder;
  CHECK(TrainStandalone(Config(folder, "dense, embeddings"), 1, {}).auc == 1.0);
  const std::string without = Config(folder, "embeddings");
  CHECK(TrainStandalone(without, 1, {"features.0.mask=false"}).auc == Approx(0.5).margin(0.1));
}

TEST_CASE("Without masks and dense columns there is nothing dense to read") {
  const TemporaryFolder folder;
  const auto config =
      LoadClusterConfig(Config(folder, "dense, embeddings"), {"features.0.mask=false"});
  CHECK_THAT(std::string(config.status().message()),
             Catch::Contains("'dense' is neither dense, embeddings nor an earlier tower"));
}

TEST_CASE("Masks and rows train together, with 1 and 2 servers to the same last byte") {
  const TemporaryFolder folder;
  const std::string config = Config(folder, "dense, embeddings");
  std::vector<std::string> overrides = Reproducible("4");
  overrides.emplace_back("tables.0.optimizer.learning_rate=0.1");
  const Outcome one = TrainStandalone(config, 1, overrides);
  CHECK(one == TrainStandalone(config, 2, overrides));
  CHECK(one.auc > 0.99);
}

}  // namespace
}  // namespace simurgh::testing
