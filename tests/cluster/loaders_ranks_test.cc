// Several loaders feed several trainers: real daemons.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <signal.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

using Daemons = std::vector<std::unique_ptr<DaemonProcess>>;

constexpr size_t kRanks = 2;

Daemons StartLoaders(TestCluster& cluster, size_t loaders) {
  Daemons all;
  for (size_t i = 0; i < loaders; ++i) all.push_back(cluster.StartLoader(i));
  return all;
}

// Results of a run.
struct Made {
  std::string network, test_auc;
  std::map<std::string, uint64_t> rows;
  std::vector<std::string> logs;  // By trainer.

  bool operator==(const Made& other) const {
    return network == other.network && test_auc == other.test_auc && rows == other.rows;
  }
};

// Waits for all to end well.
Made FinishAll(TestCluster& cluster, const Daemons& trainers, const Daemons& loaders) {
  Made made;
  for (const auto& trainer : trainers) {
    const TrainerOutcome outcome = Finish(*trainer);
    INFO(trainer->log());
    REQUIRE(outcome.exit_code == 0);
    CHECK((made.network.empty() || outcome.network_digest == made.network));
    made.network = outcome.network_digest;
    made.test_auc = outcome.test_auc;
    made.logs.push_back(trainer->log());
  }
  for (const auto& loader : loaders) {
    CAPTURE(loader->log());
    CHECK(loader->Wait(30s) == 0);
  }
  made.rows = cluster.StopServersForDigests();
  return made;
}

// Without loaders the ranks read.
Made Train(TestClusterOptions options) {
  options.digests = true;
  TestCluster cluster(options);
  const Daemons trainers = cluster.StartTrainers(options.ranks);
  return FinishAll(cluster, trainers, StartLoaders(cluster, options.loaders));
}

TEST_CASE("Loaders feed ranks what these would have read, to the last bit") {
  // 32,561 rows are 32 pieces and 561 rows, which one rank of the last step has alone.
  const std::string mode = GENERATE("sync", "hybrid");
  CAPTURE(mode);
  const std::vector<std::string> overrides{"training.mode=" + mode, "training.reproducible=true",
                                           "training.staleness=4", "training.batch_size=1000",
                                           "training.drop_last=false"};
  const Made read = Train({.ranks = kRanks, .overrides = overrides});
  CHECK(read.rows.size() > 1);
  for (const size_t loaders : {1, 2, 3}) {
    CAPTURE(loaders);
    const Made fed = Train({.ranks = kRanks, .loaders = loaders, .overrides = overrides});
    CHECK(fed == read);
    CHECK_THAT(fed.logs[0], Catch::Contains("trained: steps=17 samples=16561"));
    CHECK_THAT(fed.logs[1], Catch::Contains("trained: steps=17 samples=16000"));
  }
}

TEST_CASE("With drop_last loaders leave out a step that is not full on all ranks") {
  // 11 pieces of 3,000 rows, of which the last is not full: 3 steps of 3 ranks.
  // Two loaders deal steps in turn, the last one being the second's; that is the order of the files
  // within an epoch.
  const auto [loaders, epochs, trained] = GENERATE(table<size_t, int, std::string>(
      {{1, 2, "steps=6 samples=18000"}, {2, 1, "steps=3 samples=9000"}}));
  CAPTURE(loaders);
  const std::vector<std::string> overrides{"training.mode=sync", "training.batch_size=3000",
                                           absl::StrCat("training.epochs=", epochs)};
  const Made read = Train({.ranks = 3, .overrides = overrides});
  const Made fed = Train({.ranks = 3, .loaders = loaders, .overrides = overrides});
  CHECK(fed == read);
  for (const std::string& log : fed.logs) {
    CHECK_THAT(log, Catch::Contains("trained: " + trained));
  }
}

TEST_CASE("A loader of several ranks that is killed and started again costs nothing but time") {
  const std::vector<std::string> overrides{"training.mode=sync", "training.epochs=4",
                                           "training.batch_size=64"};
  const Made expected = Train({.ranks = kRanks, .loaders = 2, .overrides = overrides});
  TestCluster cluster({.ranks = kRanks, .loaders = 2, .overrides = overrides, .digests = true});
  const Daemons trainers = cluster.StartTrainers(kRanks, {"training.progress_interval=20ms"});
  Daemons loaders = StartLoaders(cluster, 2);
  for (const auto& trainer : trainers)
    REQUIRE(WaitForProgress(*trainer, 2));  // One of each loader.
  loaders[1]->Signal(SIGKILL);
  CHECK(loaders[1]->Wait(10s) == 128 + SIGKILL);
  loaders[1] = cluster.StartLoader(1);
  CHECK(FinishAll(cluster, trainers, loaders) == expected);
  CHECK_THAT(loaders[1]->log(), Catch::Contains("resuming the share: taken_batches="));
}

TEST_CASE("In mode async loaders feed every row once") {
  const Made fed = Train(
      {.ranks = kRanks,
       .loaders = 2,
       .overrides = {"training.mode=async", "training.staleness=2", "training.batch_size=1000",
                     "training.drop_last=false", "training.loader_queue_batches=4",
                     "embedding_worker.forward_buffer_batches=14"}});
  CHECK_THAT(fed.logs[0], Catch::Contains("trained: steps=17 samples=16561"));
  CHECK_THAT(fed.logs[1], Catch::Contains("trained: steps=16 samples=16000"));
  CHECK_THAT(fed.logs[1], Catch::Contains("samples=16281 auc="));
}

const std::vector<std::string> kEndless{"training.epochs=100000", "training.progress_interval=50ms",
                                        "training.retry_deadline=3s", "rpc.call_timeout=1s",
                                        "nn_worker.rank_timeout=20s"};

TEST_CASE("A rank that is killed ends the other one and the loaders, and all name it") {
  const auto [mode, killed] = GENERATE(table<std::string, size_t>({{"hybrid", 0}, {"async", 1}}));
  CAPTURE(mode, killed);
  std::vector<std::string> overrides = kEndless;
  overrides.push_back("training.mode=" + mode);
  TestCluster cluster({.ranks = kRanks, .loaders = 2, .overrides = overrides});
  const Daemons trainers = cluster.StartTrainers(kRanks);
  const Daemons loaders = StartLoaders(cluster, 2);
  for (const auto& trainer : trainers) REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  trainers[killed]->Signal(SIGKILL);
  const std::string name =
      absl::StrCat("rank ", killed, " of 2 (nn_worker.instances.", killed, ") disconnected");
  CHECK(trainers[1 - killed]->Wait(30s) == 3);
  CHECK_THAT(trainers[1 - killed]->log(), Catch::Contains(name));
  // By the other rank, or by themselves.
  const std::string lost = absl::StrCat("nn-worker ", killed, " was lost");
  for (const auto& loader : loaders) {
    CHECK(loader->Wait(30s) == 3);
    CHECK_THAT(loader->log(), Catch::Contains(name) || Catch::Contains(lost));
  }
}

// In mode async, only the loaders wait for the rank, and the other rank waits for the loaders.
TEST_CASE("A rank that hangs is named by the loaders, to the other one, too") {
  std::vector<std::string> overrides = kEndless;
  overrides.emplace_back("training.mode=async");
  TestCluster cluster({.ranks = kRanks, .loaders = 1, .overrides = overrides});
  const Daemons trainers = cluster.StartTrainers(kRanks);
  const auto loader = cluster.StartLoader(0);
  for (const auto& trainer : trainers) REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  trainers[1]->Signal(SIGSTOP);
  for (const auto* daemon : {&trainers[0], &loader}) {
    CHECK((*daemon)->Wait(30s) == 3);
    CHECK_THAT((*daemon)->log(), Catch::Contains("nn-worker 1 was lost"));
  }
}

TEST_CASE("A loader that stays away ends all ranks by its name") {
  TestCluster cluster({.ranks = kRanks,
                       .loaders = 2,
                       .overrides = {"loaders.timeout=2s", "training.retry_deadline=3s",
                                     "training.epochs=100000", "training.progress_interval=20ms"}});
  const Daemons trainers = cluster.StartTrainers(kRanks);
  const auto loader = cluster.StartLoader(1);
  // A loader that has not started is waited for.
  REQUIRE(trainers[0]->WaitForLog("waiting for loader 0 of 2 (from 0); start them", 60s));
  const auto other = cluster.StartLoader(0);
  REQUIRE(trainers[0]->WaitForLog("samples_per_s=", 60s));
  other->Signal(SIGKILL);
  for (const auto* daemon : {&trainers[0], &trainers[1], &loader}) {
    CHECK((*daemon)->Wait(60s) == 3);
    CHECK_THAT((*daemon)->log(), Catch::Contains("loader 0 of 2 (from 0) has fed nothing"));
  }
}

TEST_CASE("When training stops early, loaders end well") {
  TestCluster cluster({.ranks = kRanks, .loaders = 2, .overrides = {"training.epochs=100000"}});
  const Daemons trainers = cluster.StartTrainers(
      kRanks, {"training.evaluate_every_steps=20", "training.early_stopping.patience=2",
               "training.early_stopping.min_improvement=0.5",
               "data.validation=[data/adult/adult.test.csv.zst]"});
  const Daemons loaders = StartLoaders(cluster, 2);
  for (const auto& trainer : trainers) {
    CAPTURE(trainer->log());
    CHECK(Finish(*trainer).exit_code == 0);
    CHECK_THAT(trainer->log(), Catch::Contains("trained: steps=60 "));
  }
  for (const auto& loader : loaders) {
    CAPTURE(loader->log());
    CHECK(loader->Wait(30s) == 0);
    CHECK_THAT(loader->log(), Catch::Contains("fed until the trainer had enough"));
  }
}

}  // namespace
}  // namespace simurgh::testing
