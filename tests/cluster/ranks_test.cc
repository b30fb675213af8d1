// Several trainers on one cluster: real daemons.

#include <chrono>

#include <signal.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

using Trainers = std::vector<std::unique_ptr<DaemonProcess>>;

std::vector<TrainerOutcome> FinishAll(const Trainers& trainers) {
  std::vector<TrainerOutcome> outcomes;
  for (const auto& trainer : trainers) {
    outcomes.push_back(Finish(*trainer));
    INFO(trainer->log());
    REQUIRE(outcomes.back().exit_code == 0);
  }
  return outcomes;
}

// With batches of half the size a step is as large as one rank's.
const std::vector<std::string> kHalfBatches{"training.batch_size=64"};

TEST_CASE("Two ranks reach what one reaches, and agree to the last bit about the network") {
  const std::string precision = GENERATE("f32", "bf16", "int8");
  const std::string synced = GENERATE("false", "true");
  CAPTURE(precision, synced);
  TestCluster cluster({.ranks = 2, .overrides = kHalfBatches, .ranks_share = synced == "true"});
  const auto outcomes = FinishAll(cluster.StartTrainers(
      2, {"training.allreduce.precision=" + precision, "training.allreduce.bucket_bytes=4096",
          "training.sync_batch_norm=" + synced, "training.staleness=4"}));
  CAPTURE(outcomes[0].test_auc);
  CHECK(std::stod(outcomes[0].test_auc) > 0.89);
  CHECK(outcomes[0].test_auc == outcomes[1].test_auc);
  CHECK(outcomes[0].test_log_loss == outcomes[1].test_log_loss);
  CHECK(outcomes[0].network_digest == outcomes[1].network_digest);
}

TEST_CASE("Every row is trained on once, whatever the last batches are") {
  // 32,561 rows: 3 ranks of 1,000 take 32 pieces and 561 rows.
  TestCluster cluster({.ranks = 3, .overrides = {"training.batch_size=1000"}});
  const Trainers whole = cluster.StartTrainers(3, {"training.drop_last=false"});
  FinishAll(whole);
  CHECK_THAT(whole[0]->log(), Catch::Contains("trained: steps=11 samples=11000"));
  CHECK_THAT(whole[1]->log(), Catch::Contains("trained: steps=11 samples=11000"));
  CHECK_THAT(whole[2]->log(), Catch::Contains("trained: steps=11 samples=10561"));
  CHECK_THAT(whole[2]->log(), Catch::Contains("samples=16281 auc="));

  TestCluster again({.ranks = 3, .overrides = {"training.batch_size=1000", "training.epochs=2"}});
  const Trainers full = again.StartTrainers(3);
  FinishAll(full);
  for (const auto& trainer : full) {
    CHECK_THAT(trainer->log(), Catch::Contains("trained: steps=20 samples=20000"));
  }
}

TEST_CASE("A rank whose share has ended takes part with empty batches") {
  // The last of 3 steps has rows for one rank alone.
  TestCluster cluster({.ranks = 2, .overrides = {"training.batch_size=8000"}});
  const Trainers trainers = cluster.StartTrainers(
      2, {"training.drop_last=false", "training.epochs=2", "training.sync_batch_norm=true",
          "training.evaluate_every_epochs=1"});
  const auto outcomes = FinishAll(trainers);
  CHECK_THAT(trainers[0]->log(), Catch::Contains("trained: steps=6 samples=33122"));
  CHECK_THAT(trainers[1]->log(), Catch::Contains("trained: steps=6 samples=32000"));
  CHECK(outcomes[0].network_digest == outcomes[1].network_digest);
}

const std::vector<std::string> kEndless{"training.epochs=100000", "training.progress_interval=50ms",
                                        "training.retry_deadline=3s", "rpc.call_timeout=1s",
                                        "nn_worker.rank_timeout=20s"};

TEST_CASE("A rank that is killed ends the others, which name it") {
  const auto [mode, killed, share] =
      GENERATE(table<std::string, size_t, bool>({{"hybrid", 0, true},
                                                 {"hybrid", 1, false},
                                                 {"hybrid", 2, true},
                                                 {"sync", 0, false},
                                                 {"sync", 1, true},
                                                 {"sync", 2, false},
                                                 {"naive_hybrid", 1, true},
                                                 {"async", 0, false},
                                                 {"async", 2, true}}));
  CAPTURE(mode, killed, share);
  TestCluster cluster({.ranks = 3,
                       .overrides = {"training.mode=" + mode, "embedding_ps.run_timeout=1s"},
                       .ranks_share = share});
  const Trainers trainers = cluster.StartTrainers(3, kEndless);
  for (const auto& trainer : trainers) REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  trainers[killed]->Signal(SIGKILL);
  for (size_t rank = 0; rank < 3; ++rank) {
    if (rank == killed) continue;
    CAPTURE(trainers[rank]->log());
    CHECK(trainers[rank]->Wait(30s) == 3);
    CHECK_THAT(trainers[rank]->log(),
               Catch::Contains(absl::StrCat("rank ", killed, " of 3 (nn_worker.instances.", killed,
                                            ") disconnected")));
  }
  // The cluster serves the next run.
  CHECK(FinishAll(cluster.StartTrainers(3)).size() == 3);
}

TEST_CASE("A rank that loses its embedding worker reports the reason to the others") {
  TestCluster cluster({.ranks = 2});
  const Trainers trainers = cluster.StartTrainers(2, kEndless);
  for (const auto& trainer : trainers) REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  cluster.server(1).Signal(SIGKILL);
  for (const auto& trainer : trainers) {
    CHECK(trainer->Wait(60s) == 3);
    CHECK_THAT(trainer->log(), Catch::Contains("embedding-ps 1"));
  }
}

TEST_CASE("A stop of all ranks is no error") {
  TestCluster cluster({.ranks = 2, .ranks_share = GENERATE(false, true)});
  const Trainers trainers = cluster.StartTrainers(2, kEndless);
  for (const auto& trainer : trainers) REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  for (const auto& trainer : trainers) trainer->Signal(SIGTERM);
  for (const auto& trainer : trainers) {
    CAPTURE(trainer->log());
    CHECK(trainer->Wait(30s) == 0);
  }
}

TEST_CASE("Ranks of different plans refuse one another") {
  TestCluster cluster({.ranks = 2});
  const auto first = cluster.StartTrainer({"nn_worker.rank_timeout=61s"}, 0);
  const auto second = cluster.StartTrainer({"training.batch_size=64"}, 1);
  CHECK(second->Wait(60s) == 3);
  CHECK_THAT(second->log(), Catch::Contains("configurations differ: training.batch_size = ") &&
                                Catch::Contains(" (rank 0), 64 (rank 1); use the same file"));
}

TEST_CASE("Absent ranks are named and waited for") {
  TestCluster cluster({.ranks = 3});
  const std::vector<std::string> hasty{"nn_worker.rank_timeout=2ms", "training.retry_deadline=1ms"};
  const auto first = cluster.StartTrainer(hasty, 0);
  CHECK(first->WaitForLog("waiting for a peer: peer='nn-worker 1'", 60s));
  CHECK(first->WaitForLog("waiting for a peer: peer='nn-worker 2'", 60s));
  first->Signal(SIGTERM);
  CHECK(first->Wait(60s) == 0);
}

TEST_CASE("Early stopping stops all ranks at the same step") {
  TestCluster cluster({.ranks = 2});
  const Trainers trainers = cluster.StartTrainers(
      2, {"training.epochs=1000", "training.evaluate_every_steps=20",
          "training.early_stopping.patience=2", "training.early_stopping.min_improvement=0.5",
          "data.validation=[data/adult/adult.test.csv.zst]"});
  const auto outcomes = FinishAll(trainers);
  for (const auto& trainer : trainers)
    CHECK_THAT(trainer->log(), Catch::Contains("trained: steps=60 "));
  CHECK(outcomes[0].network_digest == outcomes[1].network_digest);
}

}  // namespace
}  // namespace simurgh::testing
