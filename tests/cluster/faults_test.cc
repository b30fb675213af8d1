// Real daemons, killed.

#include <chrono>
#include <cmath>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/support/daemon_process.h"
#include "tests/support/http_get.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

const std::vector<std::string> kEndless{"training.epochs=100000", "training.progress_interval=50ms",
                                        "training.retry_deadline=3s", "rpc.call_timeout=1s"};

TEST_CASE("A trainer's death leaves the servers serving; the next trainer trains") {
  TestCluster cluster({.overrides = {"embedding_ps.run_timeout=1s"}});
  const auto killed = cluster.StartTrainer(kEndless);
  REQUIRE(killed->WaitForLog("samples_per_s=", 60s));
  killed->Signal(SIGKILL);
  CHECK(killed->Wait(30s) == 128 + SIGKILL);

  CHECK(cluster.server(0).running());
  CHECK(cluster.server(1).running());
  CHECK(cluster.worker(0).running());
  const auto next = cluster.StartTrainer();
  const TrainerOutcome outcome = Finish(*next);
  CAPTURE(next->log());
  CHECK(outcome.exit_code == 0);
  CHECK(std::stod(outcome.test_auc) > 0.88);
}

TEST_CASE("A restarted job continues with the rows that the servers hold") {
  const std::vector<std::string> short_run{"training.mode=sync", "training.max_steps=40"};
  const auto log_loss_of_next = [&](TestCluster& cluster) {
    const auto trainer = cluster.StartTrainer(short_run);
    const TrainerOutcome outcome = Finish(*trainer);
    INFO(trainer->log());
    REQUIRE(outcome.exit_code == 0);
    return std::stod(outcome.test_log_loss);
  };
  TestCluster cluster({});
  const double first = log_loss_of_next(cluster);
  const double second = log_loss_of_next(cluster);
  CAPTURE(first, second);
  CHECK(second != first);
  TestCluster fresh({});
  CHECK(log_loss_of_next(fresh) == first);
}

TEST_CASE("A worker that stays away ends the trainer after clear retries") {
  TestCluster cluster({});
  const auto trainer = cluster.StartTrainer(kEndless);
  REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  cluster.worker(0).Signal(SIGKILL);
  CHECK(trainer->Wait(60s) == 3);
  CHECK_THAT(trainer->log(), Catch::Contains("retrying for another") &&
                                 Catch::Contains("training.retry_deadline") &&
                                 Catch::Contains("embedding-worker"));
}

TEST_CASE("A server that stays away ends the trainer after clear retries") {
  TestCluster cluster({});
  const auto trainer = cluster.StartTrainer(kEndless);
  REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  cluster.server(1).Signal(SIGKILL);
  CHECK(trainer->Wait(60s) == 3);
  CHECK_THAT(trainer->log(), Catch::Contains("retrying for another") &&
                                 Catch::Contains("training.retry_deadline") &&
                                 Catch::Contains("embedding-ps 1"));
}

TEST_CASE("A worker that restarts within the deadline costs only time") {
  TestCluster cluster({.overrides = {"training.reproducible=true", "training.staleness=4"}});
  const auto undisturbed = cluster.StartTrainer({"training.max_steps=1500", "training.epochs=6"});
  const TrainerOutcome expected = Finish(*undisturbed);
  REQUIRE(expected.exit_code == 0);

  TestCluster again({.overrides = {"training.reproducible=true", "training.staleness=4"}});
  const auto trainer =
      again.StartTrainer({"training.max_steps=1500", "training.epochs=6",
                          "training.progress_interval=20ms", "rpc.call_timeout=1s"});
  REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  again.worker(0).Signal(SIGKILL);
  again.worker(0).Wait(10s);
  again.RestartWorker(0);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log());
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(trainer->log(), Catch::Contains("retrying"));
  CHECK(outcome.network_digest == expected.network_digest);
}

// The last bit of the weights would show a batch that was lost, or a gradient that counted twice.
TEST_CASE("With two workers, one that dies for good costs nothing but time") {
  const TestClusterOptions two{.workers = 2,
                               .overrides = {"training.reproducible=true", "training.staleness=4"}};
  TestCluster cluster(two);
  const auto undisturbed = cluster.StartTrainer({"training.epochs=6"});
  const TrainerOutcome expected = Finish(*undisturbed);
  REQUIRE(expected.exit_code == 0);

  TestCluster again(two);
  const auto trainer = again.StartTrainer({"training.epochs=6", "training.progress_interval=20ms"});
  REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  again.worker(1).Signal(SIGKILL);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log());
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(trainer->log(), Catch::Contains("retrying"));
  CHECK(outcome.network_digest == expected.network_digest);
  CHECK(outcome.test_auc == expected.test_auc);
}

TEST_CASE("A server that loses its rows under the last evaluation is noticed, too") {
  std::string files;
  for (int i = 0; i < 200; ++i) files += "data/adult/adult.test.csv.zst,";
  TestCluster cluster({.overrides = {"data.test=[" + files + "]"}});
  const auto trainer = cluster.StartTrainer({"rpc.call_timeout=1s"});
  REQUIRE(trainer->WaitForLog("step=254 ", 60s));
  cluster.server(1).Signal(SIGKILL);
  cluster.server(1).Wait(10s);
  cluster.RestartServer(1);
  CHECK(trainer->Wait(60s) == 3);
  CHECK_THAT(trainer->log(), Catch::Contains("lost"));
}

// By step 3 the pushes of the first steps are acknowledged; a line of the first may precede all.
bool HasPushed(const DaemonProcess& trainer) { return WaitForProgress(trainer, 3); }

// With several ranks it may hold a push for ever: it waits for those of earlier steps.
TEST_CASE("A server that restarts without its rows is noticed") {
  const size_t ranks = GENERATE(1, 2);
  CAPTURE(ranks);
  TestCluster cluster({.ranks = ranks});
  const auto trainers = cluster.StartTrainers(ranks, kEndless);
  for (const auto& trainer : trainers) REQUIRE(HasPushed(*trainer));
  cluster.server(0).Signal(SIGKILL);
  cluster.server(0).Wait(10s);
  cluster.RestartServer(0);
  std::string logs;
  for (const auto& trainer : trainers) {
    CHECK(trainer->Wait(60s) == 3);
    logs += trainer->log();
  }
  CHECK_THAT(logs, Catch::Contains("has lost rows"));
}

// Value of a series without labels.
double ValueOf(const std::string& metrics, const std::string& series) {
  const size_t at = metrics.find("\n" + series + " ");
  REQUIRE(at != std::string::npos);
  return std::stod(metrics.substr(at + series.size() + 2));
}

struct FinishedRun {
  // Equal in all runs of a configuration, for any order of pushes.
  std::vector<std::string> trained;  // "trained N steps, M samples", by rank.
  double rows_updated = 0;           // By the pushes that counted: the distinct rows of each batch.
  double gradients_missing = 0;
  double test_auc = 0;
  std::string logs;
};

FinishedRun FinishAndCount(TestCluster& cluster,
                           const std::vector<std::unique_ptr<DaemonProcess>>& trainers) {
  FinishedRun run;
  for (const auto& trainer : trainers) {
    const TrainerOutcome outcome = Finish(*trainer);
    INFO(trainer->log());
    REQUIRE(outcome.exit_code == 0);
    run.test_auc = std::stod(outcome.test_auc);
    run.logs += trainer->log();
    std::smatch trained;
    const std::string log = trainer->log();
    REQUIRE(std::regex_search(log, trained, std::regex("trained: steps=[0-9]+ samples=[0-9]+")));
    run.trained.push_back(trained.str());
  }
  for (const size_t server : {0, 1}) {
    const std::string metrics = HttpGet(cluster.server(server).metrics_address(), "/metrics");
    run.rows_updated += ValueOf(metrics, "simurgh_ps_rows_updated_total");
    run.gradients_missing += ValueOf(metrics, "simurgh_ps_gradients_missing_total");
  }
  return run;
}

// Mode hybrid applies pushes in the order of arrival, so runs differ. But each batch is pushed
// once, and its push updates its distinct rows.
TEST_CASE(
    "In hybrid, a worker that dies for good loses no batch and no gradient, and none counts "
    "twice") {
  const size_t ranks = GENERATE(1, 2);
  CAPTURE(ranks);
  const TestClusterOptions two{
      .workers = 2,
      .ranks = ranks,
      .overrides = {"training.staleness=4", "training.epochs=2", "training.loader_queue_batches=4",
                    "training.progress_interval=20ms"}};
  TestCluster cluster(two);
  const FinishedRun expected = FinishAndCount(cluster, cluster.StartTrainers(ranks));

  TestCluster again(two);
  const auto trainers = again.StartTrainers(ranks);
  for (const auto& trainer : trainers) REQUIRE(HasPushed(*trainer));
  again.worker(1).Signal(SIGKILL);
  const FinishedRun disturbed = FinishAndCount(again, trainers);
  CAPTURE(disturbed.logs);
  CHECK_THAT(disturbed.logs, Catch::Contains("retrying"));
  CHECK(disturbed.trained == expected.trained);
  CHECK(disturbed.rows_updated == expected.rows_updated);
  CHECK(disturbed.gradients_missing == 0);
  CAPTURE(expected.test_auc, disturbed.test_auc);
  CHECK(expected.test_auc > 0.885);
  CHECK(std::abs(disturbed.test_auc - expected.test_auc) < 0.005);
}

// Sum of the expired batches in all lines of the log.
double DroppedBatches(const std::string& log) {
  const std::regex line(
      "dropped batches that were unused for embedding_worker.batch_expiry: batches=([0-9]+)");
  double sum = 0;
  for (std::sregex_iterator match(log.begin(), log.end(), line), end; match != end; ++match) {
    sum += std::stod((*match)[1]);
  }
  return sum;
}

TEST_CASE("What a dead trainer leaves in the forward buffer expires, all of it, and is counted") {
  TestCluster cluster({.overrides = {"embedding_worker.batch_expiry=10s"}});
  DaemonProcess& worker = cluster.worker(0);
  REQUIRE(worker.WaitForLog("serves /metrics", 60s));
  const auto scrape = [&](const std::string& series) {
    return ValueOf(HttpGet(worker.metrics_address(), "/metrics"), series);
  };
  const std::string buffered = "simurgh_worker_forward_buffer_batches";
  const std::string expired = "simurgh_worker_expired_batches_total";

  const auto trainer = cluster.StartTrainer(kEndless);
  REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  // A stopped trainer leaves its batches in the buffer until they expire. A killed one could not
  // continue. One batch may still be pushed.
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  do {
    trainer->Signal(SIGCONT);
    while (scrape(buffered) < 2) REQUIRE(std::chrono::steady_clock::now() < deadline);
    trainer->Signal(SIGSTOP);
  } while (scrape(buffered) < 2);
  const double before = scrape(expired);
  trainer->Signal(SIGKILL);
  CHECK(before == 0);

  REQUIRE(worker.WaitForLog("dropped", 60s));
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (scrape(buffered) > 0 && std::chrono::steady_clock::now() < end) {
  }
  CHECK(scrape(buffered) == 0);
  const double dropped = scrape(expired);
  CHECK(dropped > 0);
  CHECK(dropped == DroppedBatches(worker.log()));
}

// Two ranks whose last save takes long.
struct SlowSave {
  SlowSave() {
    for (const auto& trainer : trainers) {
      CAPTURE(trainer->log());
      REQUIRE(trainer->WaitForLog("evaluated: ", 60s));
    }
    REQUIRE(trainers[1]->WaitForLog("waiting until rank 0 has saved the model", 60s));
  }
  std::unique_ptr<DaemonProcess> Start(size_t rank, const std::vector<std::string>& more = {}) {
    return cluster.StartTrainer(more, rank);
  }

  const TemporaryFolder folder;
  TestCluster cluster{
      {.ranks = 2,
       .overrides = {"checkpoint.directory=" + folder.Path("model"), "checkpoint.bandwidth=200000",
                     "training.retry_deadline=3s", "rpc.call_timeout=1s"}}};
  const std::vector<std::unique_ptr<DaemonProcess>> trainers = cluster.StartTrainers(2);
};

TEST_CASE("Ranks wait until rank 0 has saved the model, and notice its loss") {
  SlowSave job;
  const bool is_server = GENERATE(false, true);
  CAPTURE(is_server);
  if (is_server) {
    job.cluster.server(0).Signal(SIGKILL);
    CHECK(job.cluster.server(0).Wait(60s) == 128 + SIGKILL);
    job.cluster.RestartServer(0);
  } else {
    job.trainers[0]->Signal(SIGKILL);
  }
  CHECK(job.trainers[1]->Wait(60s) == 4);
  CAPTURE(job.trainers[0]->log(), job.trainers[1]->log());
  CHECK(job.trainers[0]->Wait(60s) == (is_server ? 4 : 128 + SIGKILL));
  CHECK_THAT(job.trainers[1]->log(), Catch::Contains("training has ended, and its model is not "
                                                     "saved: rank 0 of 2"));
}

TEST_CASE("A rank that is lost while rank 0 saves the model finds it when it starts again") {
  SlowSave job;
  const auto signal = GENERATE(SIGKILL, SIGTERM);
  job.trainers[1]->Signal(signal);
  CHECK(job.trainers[1]->Wait(60s) == (signal == SIGKILL ? 128 + SIGKILL : 0));
  const auto waits = job.Start(1);
  CAPTURE(job.trainers[0]->log(), job.trainers[1]->log(), waits->log());
  CHECK(Finish(*job.trainers[0]).exit_code == 0);
  CHECK(waits->Wait(60s) == 4);
  CHECK_THAT(waits->log(), Catch::Contains("rank 0: the run has ended; start this rank again"));
  for (const size_t rank : {1, 0}) {
    const auto again = job.Start(rank, {"nn_worker.rank_timeout=4s"});
    CHECK(again->Wait(60s) == 0);
    CHECK_THAT(again->log(),
               Catch::Contains("nothing was trained: training.epochs: 1 are trained"));
  }
}

}  // namespace
}  // namespace simurgh::testing
