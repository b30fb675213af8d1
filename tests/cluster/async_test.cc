// Mode async: dense weights on the servers, and no rank that waits for another.

#include <regex>

#include <signal.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/cluster/standalone_run.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

// A forward buffer that allows one batch between pull and acknowledged push.
const std::vector<std::string> kOneBatch{"training.loader_queue_batches=1",
                                         "embedding_worker.forward_buffer_batches=3"};
// As much as leaves each of two ranks four with one worker, and more with two.
const std::vector<std::string> kFourBatches{
    "training.mode=async", "training.staleness=2", "training.loader_queue_batches=4",
    "embedding_worker.forward_buffer_batches=18", "training.batch_size=64"};

std::vector<std::string> With(std::vector<std::string> overrides,
                              const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

TEST_CASE("async of one rank with one batch in flight equals sync to the bit") {
  const std::string optimizer =
      GENERATE("{kind: sgd, momentum: 0.9, learning_rate: 0.01}",
               "{kind: adam, learning_rate: 0.001}", "{kind: adagrad, learning_rate: 0.01}");
  CAPTURE(optimizer);
  const std::vector<std::string> base{"training.max_steps=120",
                                      "training.dense_optimizer=" + optimizer,
                                      "training.evaluate_every_steps=50"};
  const std::string config = "config/adult-persia.yaml";
  const Outcome sync = TrainStandalone(config, 1, With(base, {"training.mode=sync"}));
  for (const int servers : {1, 3}) {
    CAPTURE(servers);
    const Outcome async =
        TrainStandalone(config, servers, With(With(base, {"training.mode=async"}), kOneBatch));
    CHECK(async.steps == sync.steps);
    CHECK(async.tables == sync.tables);
    CHECK(async.auc == sync.auc);
  }
}

std::vector<std::unique_ptr<DaemonProcess>> StartTwo(TestCluster& cluster,
                                                     const std::vector<std::string>& overrides) {
  std::vector<std::unique_ptr<DaemonProcess>> trainers;
  for (const size_t rank : {0, 1}) trainers.push_back(cluster.StartTrainer(overrides, rank));
  return trainers;
}

// Whether some line of progress counts more for all ranks than for its own.
bool KnowsOfStalenessElsewhere(const std::string& log) {
  static const std::regex progress(" staleness=([0-9.]+) ranks_staleness=([0-9.]+)");
  for (std::sregex_iterator line(log.begin(), log.end(), progress), end; line != end; ++line) {
    if (std::stod((*line)[2]) > std::stod((*line)[1])) return true;
  }
  return false;
}

TEST_CASE("Two ranks of async train, whatever their shares, and end with the same weights") {
  TestCluster cluster({.workers = 2, .ranks = 2, .overrides = kFourBatches});
  // 32,561 rows: the shares differ by a batch, of which the last is not full.
  const auto trainers = StartTwo(cluster, {"training.drop_last=false", "training.epochs=2",
                                           "training.progress_interval=50ms"});
  std::vector<TrainerOutcome> outcomes;
  for (const auto& trainer : trainers) {
    outcomes.push_back(Finish(*trainer));
    INFO(trainer->log());
    REQUIRE(outcomes.back().exit_code == 0);
    CHECK_THAT(trainer->log(), Catch::Contains(" dense_staleness="));
    CHECK(KnowsOfStalenessElsewhere(trainer->log()));
  }
  CHECK(std::stod(outcomes[0].test_auc) > 0.885);
  CHECK(outcomes[0].test_auc == outcomes[1].test_auc);
  CHECK(outcomes[0].test_log_loss == outcomes[1].test_log_loss);
  CHECK_THAT(trainers[0]->log(), Catch::Contains("samples=16281 auc="));
  CHECK_THAT(trainers[0]->log(), Catch::Contains("trained: steps=510 samples=32610"));
  CHECK_THAT(trainers[1]->log(), Catch::Contains("trained: steps=508 samples=32512"));
}

const std::vector<std::string> kEndless{"training.epochs=100000", "training.progress_interval=50ms",
                                        "training.retry_deadline=5s", "rpc.call_timeout=2s",
                                        "nn_worker.rank_timeout=20s"};

TEST_CASE("A restarted server has lost the run's weights, and the ranks report it") {
  TestCluster cluster({.ranks = 2, .overrides = kFourBatches});
  const auto trainers = StartTwo(cluster, kEndless);
  for (const auto& trainer : trainers) REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  cluster.server(1).Signal(SIGKILL);
  cluster.server(1).Wait(10s);
  cluster.RestartServer(1);
  for (const auto& trainer : trainers) {
    CHECK(trainer->Wait(60s) == 3);
    CHECK_THAT(trainer->log(), Catch::Contains("embedding-ps 1"));
  }
}

TEST_CASE("Ranks of async stop on a signal") {
  TestCluster cluster({.ranks = 2, .overrides = kFourBatches});
  const auto trainers = StartTwo(cluster, kEndless);
  for (const auto& trainer : trainers) REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  for (const auto& trainer : trainers) trainer->Signal(SIGTERM);
  for (const auto& trainer : trainers) CHECK(trainer->Wait(30s) == 0);
}

}  // namespace
}  // namespace simurgh::testing
