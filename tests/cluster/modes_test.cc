// Modes of training and the order that they keep, with several ranks: real daemons.

#include <chrono>
#include <cmath>
#include <map>

#include <signal.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

using Trainers = std::vector<std::unique_ptr<DaemonProcess>>;
using Overrides = std::vector<std::string>;

// Rank 0's; all agree.
TrainerOutcome FinishAll(const Trainers& trainers) {
  std::vector<TrainerOutcome> outcomes;
  std::string logs;
  for (const auto& trainer : trainers) {
    outcomes.push_back(Finish(*trainer));
    absl::StrAppend(&logs, trainer->log());
  }
  INFO(logs);
  for (const TrainerOutcome& outcome : outcomes) {
    REQUIRE(outcome.exit_code == 0);
    REQUIRE_FALSE(outcome.network_digest.empty());
    CHECK(outcome.network_digest == outcomes[0].network_digest);
  }
  return outcomes[0];
}

TrainerOutcome RunOn(const TestClusterOptions& options) {
  TestCluster cluster(options);
  return FinishAll(cluster.StartTrainers(options.ranks));
}

// Results of a run: evaluation, network and all rows with their optimizer state.
struct Remains {
  TrainerOutcome outcome;
  std::map<std::string, uint64_t> rows;  // Digests by table.
};

Remains RemainsOf(TestClusterOptions options, size_t tables = 8) {
  options.digests = true;
  TestCluster cluster(options);
  Remains remains{.outcome = FinishAll(cluster.StartTrainers(options.ranks)), .rows = {}};
  remains.rows = cluster.StopServersForDigests();
  CHECK(remains.rows.size() == tables);
  return remains;
}

void CheckSame(const TrainerOutcome& left, const TrainerOutcome& right) {
  CHECK(left.test_auc == right.test_auc);
  CHECK(left.test_log_loss == right.test_log_loss);
  CHECK(left.network_digest == right.network_digest);
}

const Overrides kSync{"training.mode=sync", "training.max_steps=200", "training.batch_size=64"};
const Overrides kOrderedHybrid{"training.reproducible=true", "training.staleness=4",
                               "training.max_steps=200", "training.batch_size=64"};

TEST_CASE("200 steps end in the same bits, for any number of servers and embedding workers") {
  const bool sync = GENERATE(true, false);
  const size_t ranks = GENERATE(1, 2);
  CAPTURE(sync, ranks);
  const Overrides& overrides = sync ? kSync : kOrderedHybrid;
  const Remains first = RemainsOf({.servers = 1, .ranks = ranks, .overrides = overrides});
  for (const size_t workers : {1, 2}) {
    for (const size_t servers : {1, 2, 3}) {
      CAPTURE(workers, servers);
      const Remains again = RemainsOf({.servers = servers,
                                       .workers = workers,
                                       .ranks = ranks,
                                       .overrides = overrides,
                                       .ranks_share = workers == 2});
      CheckSame(first.outcome, again.outcome);
      CHECK(first.rows == again.rows);
    }
  }
}

// Writes samples [first, first + samples).
void Generate(const std::string& file, const std::string& samples, const std::string& first) {
  DaemonProcess datagen(
      "datagen",
      {"--output", file, "--samples", samples, "--first", first, "--distinct-ids", "20000"},
      file + ".log");
  REQUIRE(datagen.Wait(60s) == 0);
}

TEST_CASE("They do on data in Criteo's layout, with Adam and 16 bits for rows, at rest and sent") {
  const TemporaryFolder folder;
  const std::string train = folder.path() + "/train.tsv";
  const std::string test = folder.path() + "/test.tsv";
  Generate(train, "26000", "0");
  Generate(test, "4000", "26000");
  Overrides overrides = GENERATE(kSync, kOrderedHybrid);
  overrides.insert(
      overrides.end(),
      {"data.train=[\"" + train + "\"]", "data.test=[\"" + test + "\"]", "tables.0.precision=bf16",
       "tables.0.optimizer={kind: adam}", "embedding_worker.row_precision=bf16",
       "embedding_worker.row_gradient_precision=bf16"});
  const auto remains = [&](size_t servers, size_t workers) {
    return RemainsOf({.config = "config/criteo-synthetic.yaml",
                      .servers = servers,
                      .workers = workers,
                      .ranks = 2,
                      .overrides = overrides},
                     26);
  };
  const Remains first = remains(1, 1);
  const Remains again = remains(3, 2);
  CheckSame(first.outcome, again.outcome);
  CHECK(first.rows == again.rows);
}

TEST_CASE("Modes, and staleness, are not the same: the comparison can fail") {
  const auto [sync, sync_rows] = RemainsOf({.ranks = 2, .overrides = kSync});
  const auto [hybrid, hybrid_rows] = RemainsOf({.ranks = 2, .overrides = kOrderedHybrid});
  CHECK(sync.test_log_loss != hybrid.test_log_loss);
  for (const auto& [table, digest] : sync_rows) CHECK(hybrid_rows.at(table) != digest);
  Overrides fresher = kOrderedHybrid;
  fresher.emplace_back("training.staleness=1");
  // In turn, not summed.
  CHECK(RunOn({.ranks = 2, .overrides = fresher}).test_log_loss != sync.test_log_loss);
}

// Sums in another order differ by their last bits, and every step carries the difference on: 1e-8
// of the log loss after 20 steps, five orders below what a batch norm of each rank's own makes of
// it.
TEST_CASE("Ranks of sync are one rank with their batches together, but for rounding") {
  const auto log_loss = [](size_t ranks, bool sync_batch_norm) {
    return std::stod(RunOn({.ranks = ranks,
                            .overrides = {"training.mode=sync", "training.max_steps=20",
                                          absl::StrCat("training.batch_size=", 128 / ranks),
                                          absl::StrCat("training.sync_batch_norm=",
                                                       sync_batch_norm ? "true" : "false")}})
                         .test_log_loss);
  };
  constexpr double kTolerance = 1e-6;
  const double one = log_loss(1, true);
  for (const size_t ranks : {2, 4}) {
    CAPTURE(ranks);
    CHECK(std::abs(log_loss(ranks, true) - one) < kTolerance);
  }
  CHECK(std::abs(log_loss(2, false) - one) > 100 * kTolerance);
}

TEST_CASE("Naive hybrid trains, too") {
  const size_t ranks = GENERATE(1, 2);
  const TrainerOutcome outcome =
      RunOn({.ranks = ranks,
             .overrides = {"training.mode=naive_hybrid", "training.staleness=4",
                           absl::StrCat("training.batch_size=", 128 / ranks)}});
  CHECK(std::stod(outcome.test_auc) > 0.89);
}

TEST_CASE("A worker that restarts costs several ranks only time") {
  const Overrides quick{"training.epochs=4", "training.max_steps=1000",
                        "training.progress_interval=20ms", "rpc.call_timeout=2s"};
  const Overrides& overrides = GENERATE(kSync, kOrderedHybrid);
  TestCluster undisturbed({.ranks = 2, .overrides = overrides});
  const TrainerOutcome expected = FinishAll(undisturbed.StartTrainers(2, quick));

  TestCluster cluster({.ranks = 2, .overrides = overrides});
  const Trainers trainers = cluster.StartTrainers(2, quick);
  for (const auto& trainer : trainers) REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  cluster.worker(0).Signal(SIGKILL);
  cluster.worker(0).Wait(10s);
  cluster.RestartWorker(0);
  CheckSame(expected, FinishAll(trainers));
}

TEST_CASE("A server whose ranks are gone stops, though pushes wait") {
  TestCluster cluster({.ranks = 2,
                       .overrides = {"training.mode=sync", "training.epochs=100000",
                                     "training.progress_interval=20ms"}});
  const Trainers trainers = cluster.StartTrainers(2);
  for (const auto& trainer : trainers) REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  for (const auto& trainer : trainers) trainer->Signal(SIGKILL);
  for (const size_t server : {0, 1}) cluster.server(server).Signal(SIGTERM);
  for (const size_t server : {0, 1}) CHECK(cluster.server(server).Wait(30s) == 0);
}

}  // namespace
}  // namespace simurgh::testing
