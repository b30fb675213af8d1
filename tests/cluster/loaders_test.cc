// Training on what loaders feed: simurgh-feed and programs of one's own, with real daemons.

#include <chrono>
#include <fstream>
#include <thread>

#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/cluster/run_cluster.h"
#include "tests/support/list_lengths.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

const std::vector<std::string> kReproducible{"training.reproducible=true", "training.staleness=4"};

std::vector<std::string> Reproducible(std::vector<std::string> more) {
  more.insert(more.end(), kReproducible.begin(), kReproducible.end());
  return more;
}

// A run that two feeders fed.
struct FedRun {
  TrainerOutcome outcome;
  std::string log, output;  // The trainer's.
  std::vector<std::string> feeder_logs;
  std::vector<int> feeder_exits;
};

// Does not check the outcome.
FedRun Feed(TestClusterOptions options) {
  options.loaders = 2;
  TestCluster cluster(options);
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  FedRun run{.outcome = Finish(*trainer),
             .log = trainer->log(),
             .output = trainer->output(),
             .feeder_logs = {},
             .feeder_exits = {}};
  for (DaemonProcess* feeder : {one.get(), other.get()}) {
    run.feeder_exits.push_back(feeder->Wait(30s).value_or(-1));
    run.feeder_logs.push_back(feeder->log());
  }
  return run;
}

FedRun FeedWell(const TestClusterOptions& options) {
  FedRun run = Feed(options);
  CAPTURE(run.log, run.feeder_logs);
  CHECK(run.outcome.exit_code == 0);
  CHECK(run.feeder_exits == std::vector<int>{0, 0});
  return run;
}

// Trains with and without feeders, to the last bit the same.
FedRun CheckFedAsRead(const TestClusterOptions& options) {
  const TrainerOutcome expected = RunCluster(options);
  FedRun run = FeedWell(options);
  CHECK(run.outcome.network_digest == expected.network_digest);
  CHECK(run.outcome.test_auc == expected.test_auc);
  return run;
}

TEST_CASE("Two feeders train what the trainer alone would have, to the last bit") {
  const FedRun run = CheckFedAsRead({.overrides = kReproducible});
  CHECK(std::stod(run.outcome.test_auc) > 0.89);
  for (const std::string& log : run.feeder_logs) {
    CHECK_THAT(log, Catch::Contains("fed: batches=127 samples=16256 bad_rows=0"));
  }
}

TEST_CASE("Feeders send all labels, and the log reports each") {
  const FedRun run =
      CheckFedAsRead({.config = "config/adult-tasks.yaml", .overrides = kReproducible});
  for (const char* label : {"marital_status", "income"}) {
    const std::string name = label;
    CHECK_THAT(run.log, Catch::Contains("label=" + name + " auc=0."));
    CHECK_THAT(run.output, Catch::Contains("label=" + name + " test_auc=0."));
  }
}

TEST_CASE("Two feeders with processed features reach the AUC of the built-in reader") {
  const TrainerOutcome outcome = FeedWell({.config = "config/adult-features.yaml"}).outcome;
  CHECK(std::stod(outcome.test_auc) > 0.905);
  CHECK(std::stod(outcome.test_auc) < 0.925);
}

TEST_CASE("Masks of raw features are the same of batches that are fed") {
  const TemporaryFolder folder;
  const std::string config = WriteListLengths(folder, "dense, embeddings");
  const TrainerOutcome outcome =
      CheckFedAsRead({.config = config, .overrides = kReproducible}).outcome;
  CHECK(std::stod(outcome.test_auc) == 1.0);
}

TEST_CASE("A feeder that is killed and started again costs nothing but time") {
  const std::vector<std::string> overrides = Reproducible({"training.epochs=6"});
  const TrainerOutcome expected = RunCluster({.overrides = overrides});
  TestCluster cluster({.loaders = 2, .overrides = overrides});
  const auto trainer = cluster.StartTrainer({"training.progress_interval=20ms"});
  const auto one = cluster.StartLoader(0);
  auto other = cluster.StartLoader(1);
  REQUIRE(WaitForProgress(*trainer, 2));  // So a batch of each has been taken.
  other->Signal(SIGKILL);
  CHECK(other->Wait(10s) == 128 + SIGKILL);
  other = cluster.StartLoader(1);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log(), other->log());
  CHECK(outcome.exit_code == 0);
  CHECK(one->Wait(30s) == 0);
  CHECK(other->Wait(30s) == 0);
  CHECK_THAT(other->log(), Catch::Contains("resuming the share: taken_batches="));
  CHECK(outcome.network_digest == expected.network_digest);
}

TEST_CASE("A feeder that stays away ends the run by name, and the other one") {
  TestCluster cluster({.loaders = 2,
                       .overrides = {"training.epochs=100000", "training.progress_interval=20ms",
                                     "loaders.timeout=2s", "training.retry_deadline=2s"}});
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  other->Signal(SIGKILL);
  CHECK(trainer->Wait(60s) == 3);
  CHECK_THAT(trainer->log(), Catch::Contains("loader 1 of 2 (from 0) has fed nothing for 2000 ms"));
  CHECK(one->Wait(60s) == 3);
  CAPTURE(one->log());
  CHECK_THAT(one->log(), Catch::Contains("training has ended before its data") ||
                             Catch::Contains("the nn-worker was lost"));
}

// 400 rows in pieces of 100: label, age, shop. The ages of rows from 101 to 200, which are the
// second loader's, are `age`.
void WriteRows(const std::string& path, const std::string& age) {
  std::ofstream rows(path);
  for (int r = 1; r <= 400; ++r) {
    const bool second = r > 100 && r <= 200;
    rows << r % 2 << "," << (second ? age : std::to_string(20 + r % 50)) << ",id" << r % 9 << "\n";
  }
}

// In `folder`, of rows.csv, of which the second loader has rows 101 to 200. more: lines of the
// section `data`.
std::string WriteConfig(const TemporaryFolder& folder, const std::string& age_kind,
                        const std::string& more = "") {
  return folder.Write("rows.yaml", R"(
cluster: {name: rows, seed: 1}
embedding_ps: {instances: [{address: "127.0.0.1:1"}]}
embedding_worker: {instances: [{address: "127.0.0.1:2"}]}
nn_worker: {instances: [{address: "127.0.0.1:3"}]}
tables: [{name: shop, dim: 4, capacity_rows: 100, optimizer: {kind: sgd, learning_rate: 0.1}}]
features: [{name: shop}]
data:
  train: [rows.csv]
  shuffle: 0
  csv: {columns: [{name: label, kind: label}, {name: age, )" +
                                       age_kind +
                                       R"(}, {name: shop, kind: id}]}
)" + more + R"(
model: {towers: [{name: top, input: [dense, embeddings], layers: [{linear: 1}]}]}
training: {batch_size: 100}
)");
}

// The test would be killed before these end.
const std::vector<std::string> kNoPatience{"loaders.timeout=30m", "training.retry_deadline=30m"};

TEST_CASE("A bad row that a feeder meets ends the trainer at once, with its place and value") {
  const TemporaryFolder folder;
  WriteRows(folder.Path("rows.csv"), "forty");
  TestCluster cluster({.config = WriteConfig(folder, "kind: dense, fit: false"),
                       .loaders = 2,
                       .overrides = kNoPatience});
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  CHECK(other->Wait(60s) == 3);
  CHECK(trainer->Wait(60s) == 3);
  CAPTURE(trainer->log(), one->log(), other->log());
  CHECK_THAT(trainer->log(), Catch::Contains("loader 1 of 2 (from 0): ") &&
                                 Catch::Contains("rows.csv:101") && Catch::Contains("age") &&
                                 Catch::Contains("forty"));
  CHECK_THAT(other->log(), Catch::Contains("rows.csv:101") && Catch::Contains("forty"));
}

TEST_CASE("A feeder that cannot fit statistics ends the trainer, with file, column and reason") {
  const TemporaryFolder folder, other_folder;
  WriteRows(folder.Path("rows.csv"), "40");
  WriteRows(other_folder.Path("rows.csv"), "forty");
  TestCluster cluster({.config = WriteConfig(folder, "kind: dense, fit: true"),
                       .loaders = 2,
                       .overrides = kNoPatience});
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1, {"data.train=[" + other_folder.Path("rows.csv") + "]"});
  CHECK(other->Wait(60s) == 2);
  CHECK(trainer->Wait(60s) == 3);
  CAPTURE(trainer->log(), one->log(), other->log());
  CHECK_THAT(trainer->log(), Catch::Contains("loader 1 of 2 (from 0): ") &&
                                 Catch::Contains(other_folder.Path("rows.csv") + ":101") &&
                                 Catch::Contains("'age'") && Catch::Contains("forty"));
}

TEST_CASE("A feeder whose plug-in refuses ends the trainer, with the plug-in's reason") {
  const TemporaryFolder folder;
  WriteRows(folder.Path("rows.csv"), "40");
  const std::string derived =
      "  derived: [{name: soft, columns: [age], width: 2, plugin: {path: " SOFT_BINS_PLUGIN
      ", parameters: [50, 20]}}]";
  TestCluster cluster({.config = WriteConfig(folder, "kind: dense, fit: false", derived),
                       .loaders = 1,
                       .overrides = kNoPatience});
  const auto trainer = cluster.StartTrainer();
  const auto feeder = cluster.StartLoader(0);
  CHECK(feeder->Wait(60s) == 3);
  CHECK(trainer->Wait(60s) == 3);
  CAPTURE(trainer->log(), feeder->log());
  CHECK_THAT(trainer->log(), Catch::Contains("loader 0 of 1 (from 0): ") &&
                                 Catch::Contains("soft_bins.so") &&
                                 Catch::Contains("anchor 20 is not above the previous one"));
}

// Five bad rows: three of the first loader, two of the second.
std::string ConfigWithBadRows(const TemporaryFolder& folder) {
  std::ofstream rows(folder.Path("rows.csv"));
  for (int r = 1; r <= 400; ++r) {
    rows << r % 2 << "," << (r % 100 == 7 || r == 20 ? "forty" : "40") << ",id" << r % 9 << "\n";
  }
  return WriteConfig(folder, "kind: dense, fit: false", "  on_bad_row: skip");
}

FedRun FeedBadRows(const std::string& max_bad_share) {
  const TemporaryFolder folder;
  return Feed({.config = ConfigWithBadRows(folder),
               .overrides = {"data.max_bad_share=" + max_bad_share, "training.epochs=2",
                             "loaders.timeout=30m", "training.retry_deadline=5s"}});
}

TEST_CASE("The trainer reports the bad rows that loaders skipped") {
  const FedRun run = FeedBadRows("0.003");
  CHECK(run.outcome.exit_code == 0);
  CHECK_THAT(run.log, Catch::Contains(" bad_rows=10 network_digest="));
}

TEST_CASE("Too many bad rows of a loader end the run") {
  const FedRun run = FeedBadRows("0.002");
  CHECK(run.outcome.exit_code == 3);
  CHECK_THAT(run.log,
             Catch::Contains("rows are bad, more than data.max_bad_share, 0.002, of 1000: "));
}

TEST_CASE("Loaders without a batch end the run with what to do") {
  const TemporaryFolder folder;
  WriteRows(folder.Path("rows.csv"), "40");
  const FedRun run =
      Feed({.config = WriteConfig(folder, "kind: dense, fit: false"),
            .overrides = {"training.batch_size=1000", "training.retry_deadline=5s"}});
  CHECK(run.outcome.exit_code == 3);
  CHECK_THAT(run.log, Catch::Contains("all loaders ended without a batch: ") &&
                          Catch::Contains("lower training.batch_size"));
  for (const std::string& log : run.feeder_logs) {
    CHECK_THAT(log, Catch::Contains("this share has no batch. data.train may have too few rows"));
  }
}

TEST_CASE("A second feeder of the same share changes nothing") {
  const TrainerOutcome expected = RunCluster({.overrides = kReproducible});
  TestCluster cluster({.loaders = 2, .overrides = Reproducible({"training.retry_deadline=5s"})});
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto again = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log(), one->log(), again->log());
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.network_digest == expected.network_digest);
}

TEST_CASE("SIGTERM stops a feeder in order while the trainer is slower than it") {
  TestCluster cluster({.loaders = 1, .overrides = {"training.epochs=100000"}});
  const auto trainer = cluster.StartTrainer();
  const auto feeder = cluster.StartLoader(0);
  REQUIRE(feeder->WaitForLog("samples_per_s=", 60s));
  feeder->Signal(SIGTERM);
  CHECK(feeder->Wait(30s) == 0);
  CHECK_THAT(feeder->log(), Catch::Contains("stopped before the end of the share"));
  trainer->Signal(SIGTERM);
  CHECK(trainer->Wait(30s) == 0);
}

TEST_CASE("When the trainer has had its steps, feeders end well") {
  TestCluster cluster(
      {.loaders = 2, .overrides = {"training.epochs=100000", "training.max_steps=300"}});
  const auto trainer = cluster.StartTrainer();
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log(), one->log());
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(trainer->log(), Catch::Contains("trained: steps=300 "));
  CHECK(one->Wait(30s) == 0);
  CHECK(other->Wait(30s) == 0);
  CHECK_THAT(one->log(), Catch::Contains("fed until the trainer had enough"));
}

TEST_CASE("A feeder without a trainer or with other inputs reports it") {
  TestCluster cluster({.loaders = 1, .overrides = {"training.retry_deadline=1s"}});
  const auto lonely = cluster.StartLoader(0);
  CHECK(lonely->WaitForLog("waiting for a peer: peer='nn-worker 0'", 30s));
  lonely->Signal(SIGTERM);
  CHECK(lonely->Wait(30s) == 0);
  const auto second = cluster.StartLoader(1);
  CHECK(second->Wait(30s) == 2);
  CHECK_THAT(second->log(), Catch::Contains("1 entry in loaders.instances"));

  const auto trainer = cluster.StartTrainer();
  REQUIRE(trainer->WaitForLog("waiting for loaders: loaders=1", 60s));
  const auto different = cluster.StartLoader(0, {"data.columns.0.stddev=2"});
  CHECK(different->Wait(30s) == 3);
  CHECK_THAT(different->log(), Catch::Contains("data.columns.0.stddev = "));
  CHECK_THAT(trainer->log(), Catch::Contains("refused loader 0: "));
  const auto right = cluster.StartLoader(0);
  CHECK(Finish(*trainer).exit_code == 0);
  CHECK(right->Wait(30s) == 0);
}

TEST_CASE("The tool prints its usage, its version and missing options") {
  const TemporaryFolder folder;
  DaemonProcess help("simurgh-feed", {"--help"}, folder.path() + "/help");
  CHECK(help.Wait(30s) == 0);
  CHECK_THAT(help.output(), Catch::Contains("Usage: simurgh-feed --config FILE") &&
                                Catch::Contains("loaders.instances"));
  DaemonProcess none("simurgh-feed", {"--config", "config/adult.yaml"}, folder.path() + "/none");
  CHECK(none.Wait(30s) == 2);
  CHECK_THAT(none.log(),
             Catch::Contains("config/adult.yaml has no entry in loaders.instances; add"));
  DaemonProcess version("simurgh-feed", {"--version"}, folder.path() + "/version");
  CHECK(version.Wait(30s) == 0);
  CHECK_THAT(version.output(), Catch::StartsWith("simurgh-feed "));
}

}  // namespace
}  // namespace simurgh::testing
