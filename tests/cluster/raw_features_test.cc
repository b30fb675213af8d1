// Raw features from a file to the dense network and back, in one process.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "tests/cluster/standalone_run.h"
#include "tests/support/list_lengths.h"

namespace simurgh::testing {
namespace {

TEST_CASE("From masks a model learns how long lists are, and has nothing else to learn it from") {
  const TemporaryFolder folder;
  CHECK(TrainStandalone(WriteListLengths(folder, "dense, embeddings"), 1, {}).auc == 1.0);
  const std::string without = WriteListLengths(folder, "embeddings");
  CHECK(TrainStandalone(without, 1, {"features.0.mask=false"}).auc == Approx(0.5).margin(0.1));
}

TEST_CASE("Without masks and dense columns there is nothing dense to read") {
  const TemporaryFolder folder;
  const auto config =
      LoadClusterConfig(WriteListLengths(folder, "dense, embeddings"), {"features.0.mask=false"});
  CHECK_THAT(std::string(config.status().message()),
             Catch::Contains("'dense' is neither dense, embeddings nor an earlier tower"));
}

TEST_CASE("Masks and rows train together, with 1 and 2 servers to the same last byte") {
  const TemporaryFolder folder;
  const std::string config = WriteListLengths(folder, "dense, embeddings");
  std::vector<std::string> overrides = Reproducible("4");
  overrides.emplace_back("tables.0.optimizer.learning_rate=0.1");
  const Outcome one = TrainStandalone(config, 1, overrides);
  CHECK(one == TrainStandalone(config, 2, overrides));
  CHECK(one.auc > 0.99);
  overrides.emplace_back("training.embeddings=rows");
  CHECK(one == TrainStandalone(config, 2, overrides));
}

}  // namespace
}  // namespace simurgh::testing
