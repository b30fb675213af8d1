// Training on what loaders feed: simurgh-feed and programs of one's own, with real daemons.

#include <chrono>
#include <fstream>
#include <thread>

#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

const std::vector<std::string> kReproducible{"training.reproducible=true", "training.staleness=4"};

std::vector<std::string> Reproducible(std::vector<std::string> more) {
  more.insert(more.end(), kReproducible.begin(), kReproducible.end());
  return more;
}

TEST_CASE("Two feeders train what the trainer alone would have, to the last bit") {
  TestCluster alone({.overrides = kReproducible});
  const auto reader = alone.StartTrainer();
  const TrainerOutcome expected = Finish(*reader);
  REQUIRE(expected.exit_code == 0);

  TestCluster cluster({.loaders = 2, .overrides = kReproducible});
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log(), one->log(), other->log());
  CHECK(outcome.exit_code == 0);
  CHECK(one->Wait(30s) == 0);
  CHECK(other->Wait(30s) == 0);
  CHECK(outcome.network_digest == expected.network_digest);
  CHECK(outcome.test_auc == expected.test_auc);
  CHECK(std::stod(outcome.test_auc) > 0.89);
  CHECK_THAT(one->log(), Catch::Contains("fed 127 batches, 16256 samples; 0 bad rows left out"));
  CHECK_THAT(other->log(), Catch::Contains("fed 127 batches, 16256 samples; 0 bad rows left out"));
}

TEST_CASE("Feeders send all labels, and the log tells of each") {
  const std::string config = "config/adult-tasks.yaml";
  TestCluster alone({.config = config, .overrides = kReproducible});
  const auto reader = alone.StartTrainer();
  const TrainerOutcome expected = Finish(*reader);
  REQUIRE(expected.exit_code == 0);
  TestCluster cluster({.config = config, .loaders = 2, .overrides = kReproducible});
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log());
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.network_digest == expected.network_digest);
  for (const char* label : {"marital_status", "income"}) {
    const std::string name = label;
    CHECK_THAT(trainer->log(), Catch::Contains("label '" + name + "': auc 0."));
    CHECK_THAT(trainer->output(), Catch::Contains("label=" + name + " test_auc=0."));
  }
}

TEST_CASE("Two feeders with processed features reach the AUC of the built-in reader") {
  TestCluster cluster({.config = "config/adult-features.yaml", .loaders = 2});
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log(), one->log());
  CHECK(outcome.exit_code == 0);
  CHECK(std::stod(outcome.test_auc) > 0.905);
  CHECK(std::stod(outcome.test_auc) < 0.925);
}

// Lists of 0 to 7 ids; the label is whether there are 3 or more, which next to nothing but their
// masks tells: rows begin as zeros and hardly change.
std::string ConfigWithMasks(const std::string& folder) {
  for (const char* const name : {"/train.csv", "/test.csv"}) {
    std::ofstream rows(folder + name);
    for (int r = 0; r < 4'000; ++r) {
      const int ids = r * 7 / 3 % 8;
      rows << (ids >= 3 ? 1 : 0) << ",";
      for (int i = 0; i < ids; ++i) rows << (i > 0 ? " " : "") << r * (i + 11) % 50;
      rows << "\n";
    }
  }
  std::ofstream config(folder + "/masks.yaml");
  config << R"(

cluster: {name: masks, seed: 1}
embedding_ps: {instances: [{address: "127.0.0.1:1"}]}
embedding_worker: {instances: [{address: "127.0.0.1:2"}]}
nn_worker: {instances: [{address: "127.0.0.1:3"}]}
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
model: {towers: [{name: top, input: [dense, embeddings], layers: [{linear: 1}]}]}
training: {batch_size: 100, passes: 5}
)";
  return folder + "/masks.yaml";
}

TEST_CASE("Masks of raw features are the same of batches that are fed") {
  const TemporaryFolder folder;
  const std::string config = ConfigWithMasks(folder.path());
  TestCluster alone({.config = config, .overrides = kReproducible});
  const auto reader = alone.StartTrainer();
  const TrainerOutcome expected = Finish(*reader);
  REQUIRE(expected.exit_code == 0);
  CHECK(std::stod(expected.test_auc) == 1.0);

  TestCluster cluster({.config = config, .loaders = 2, .overrides = kReproducible});
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log(), one->log(), other->log());
  CHECK(outcome.exit_code == 0);
  CHECK(one->Wait(30s) == 0);
  CHECK(other->Wait(30s) == 0);
  CHECK(outcome.network_digest == expected.network_digest);
  CHECK(outcome.test_auc == expected.test_auc);
}

TEST_CASE("A feeder that is killed and started again costs nothing but time") {
  const std::vector<std::string> overrides = Reproducible({"training.passes=6"});
  TestCluster alone({.overrides = overrides});
  const auto reader = alone.StartTrainer();
  const TrainerOutcome expected = Finish(*reader);
  REQUIRE(expected.exit_code == 0);

  TestCluster cluster({.loaders = 2, .overrides = overrides});
  const auto trainer = cluster.StartTrainer({"training.progress_interval=20ms"});
  const auto one = cluster.StartLoader(0);
  auto other = cluster.StartLoader(1);
  REQUIRE(trainer->WaitForLog("samples/s", 60s));
  other->Signal(SIGKILL);
  CHECK(other->Wait(10s) == 128 + SIGKILL);
  other = cluster.StartLoader(1);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log(), other->log());
  CHECK(outcome.exit_code == 0);
  CHECK(one->Wait(30s) == 0);
  CHECK(other->Wait(30s) == 0);
  CHECK_THAT(other->log(), Catch::Contains("batches of this share already"));
  CHECK(outcome.network_digest == expected.network_digest);
}

TEST_CASE("A feeder that stays away ends the run by name, and the other one") {
  TestCluster cluster({.loaders = 2,
                       .overrides = {"training.passes=100000", "training.progress_interval=20ms",
                                     "loaders.timeout=2s", "training.retry_deadline=2s"}});
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  REQUIRE(trainer->WaitForLog("samples/s", 60s));
  other->Signal(SIGKILL);
  CHECK(trainer->Wait(60s) == 3);
  CHECK_THAT(trainer->log(), Catch::Contains("loader 1 of 2 (from 0) has fed nothing for 2000 ms"));
  CHECK(one->Wait(60s) == 3);
  CAPTURE(one->log());
  CHECK_THAT(one->log(), Catch::Contains("training has ended before its data") ||
                             Catch::Contains("the nn-worker was lost"));
}

// 400 rows in pieces of 100; row 151, in the piece of the second loader, has no number.
std::string ConfigWithBadRow(const std::string& folder) {
  std::ofstream rows(folder + "/rows.csv");
  for (int r = 1; r <= 400; ++r) {
    rows << r % 2 << "," << (r == 151 ? "forty" : "40") << ",id" << r % 9 << "\n";
  }
  std::ofstream config(folder + "/bad.yaml");
  config << R"(

cluster: {name: bad, seed: 1}
embedding_ps: {instances: [{address: "127.0.0.1:1"}]}
embedding_worker: {instances: [{address: "127.0.0.1:2"}]}
nn_worker: {instances: [{address: "127.0.0.1:3"}]}
tables: [{name: shop, dim: 4, capacity_rows: 100, optimizer: {kind: sgd, learning_rate: 0.1}}]
features: [{name: shop}]
data:
  train: [rows.csv]
  csv: {columns: [{name: label, kind: label}, {name: age, kind: dense}, {name: shop, kind: id}]}
model: {towers: [{name: top, input: [dense, embeddings], layers: [{linear: 1}]}]}
training: {batch_size: 100}
)";
  return folder + "/bad.yaml";
}

TEST_CASE("A bad row that a feeder meets ends the trainer at once, with its place and value") {
  const TemporaryFolder folder;
  TestCluster cluster({.config = ConfigWithBadRow(folder.path()),
                       .loaders = 2,
                       // Whoever waited for these would be killed first.
                       .overrides = {"loaders.timeout=30m", "training.retry_deadline=30m"}});
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  CHECK(other->Wait(60s) == 3);
  CHECK(trainer->Wait(60s) == 3);
  CAPTURE(trainer->log(), one->log(), other->log());
  CHECK_THAT(trainer->log(), Catch::Contains("loader 1 of 2 (from 0): ") &&
                                 Catch::Contains("rows.csv") && Catch::Contains("151") &&
                                 Catch::Contains("age") && Catch::Contains("forty"));
  CHECK_THAT(other->log(), Catch::Contains("151") && Catch::Contains("forty"));
}

TEST_CASE("SIGTERM stops a feeder in order while the trainer is slower than it") {
  TestCluster cluster({.loaders = 1, .overrides = {"training.passes=100000"}});
  const auto trainer = cluster.StartTrainer();
  const auto feeder = cluster.StartLoader(0);
  REQUIRE(feeder->WaitForLog("samples/s", 60s));
  feeder->Signal(SIGTERM);
  CHECK(feeder->Wait(30s) == 0);
  CHECK_THAT(feeder->log(), Catch::Contains("stopped before the end of its share"));
  trainer->Signal(SIGTERM);
  CHECK(trainer->Wait(30s) == 0);
}

TEST_CASE("When the trainer has had its steps, feeders end well") {
  TestCluster cluster(
      {.loaders = 2, .overrides = {"training.passes=100000", "training.max_steps=300"}});
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log(), one->log());
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(trainer->log(), Catch::Contains("trained 300 steps"));
  CHECK(one->Wait(30s) == 0);
  CHECK(other->Wait(30s) == 0);
  CHECK_THAT(one->log(), Catch::Contains("the trainer wants no more"));
}

TEST_CASE("A feeder without a trainer, or with another idea of the inputs, says so") {
  TestCluster cluster({.loaders = 1, .overrides = {"training.retry_deadline=1s"}});
  const auto lonely = cluster.StartLoader(0);
  CHECK(lonely->Wait(30s) == 3);
  CHECK_THAT(lonely->log(), Catch::Contains("the nn-worker was lost for training.retry_deadline"));
  const auto second = cluster.StartLoader(1);
  CHECK(second->Wait(30s) == 2);
  CHECK_THAT(second->log(), Catch::Contains("1 entries in loaders.instances"));

  const auto trainer = cluster.StartTrainer();
  REQUIRE(trainer->WaitForLog("waiting for 1 loaders", 60s));
  const auto different = cluster.StartLoader(0, {"data.csv.columns.0.stddev=2"});
  CHECK(different->Wait(30s) == 3);
  CHECK_THAT(different->log(), Catch::Contains("make different inputs of the same rows"));
  const auto right = cluster.StartLoader(0);
  CHECK(Finish(*trainer).exit_code == 0);
  CHECK(right->Wait(30s) == 0);
}

TEST_CASE("The tool tells how it is used, and its version") {
  const TemporaryFolder folder;
  DaemonProcess help("simurgh-feed", {"--help"}, folder.path() + "/help");
  CHECK(help.Wait(30s) == 0);
  CHECK_THAT(help.output(), Catch::Contains("Usage: simurgh-feed --config FILE") &&
                                Catch::Contains("loaders.instances"));
  DaemonProcess version("simurgh-feed", {"--version"}, folder.path() + "/version");
  CHECK(version.Wait(30s) == 0);
  CHECK_THAT(version.output(), Catch::StartsWith("simurgh-feed "));
}

}  // namespace
}  // namespace simurgh::testing
