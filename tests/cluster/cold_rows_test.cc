// Training with rows on disk, against training with all rows in memory.

#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/daemon_process.h"
#include "tests/support/http_get.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using std::chrono_literals::operator""s;

struct Outcome {
  TrainerOutcome trainer;
  std::map<std::string, uint64_t> rows;
};

// memory_rows: of the table; 0: all.
std::vector<std::string> Memory(uint64_t memory_rows, const std::string& folder) {
  if (memory_rows == 0) return {};
  return {absl::StrCat("tables.0.memory_rows=", memory_rows),
          "embedding_ps.cold_directory=" + folder};
}

// Trains to a step, in a model's folder.
Outcome Train(std::vector<std::string> overrides, const std::vector<std::string>& memory,
              size_t servers = 2) {
  overrides.insert(overrides.end(), memory.begin(), memory.end());
  TestCluster cluster({.servers = servers, .overrides = overrides, .digests = true});
  const auto trainer = cluster.StartTrainer();
  Outcome outcome{.trainer = Finish(*trainer), .rows = {}};
  CAPTURE(trainer->log());
  REQUIRE(outcome.trainer.exit_code == 0);
  for (size_t server = 0; server < servers && !memory.empty(); ++server) {
    CHECK_THAT(cluster.server(server).log(),
               Contains("rows without room in memory go to the disk"));
    const std::string metrics = HttpGet(cluster.server(server).metrics_address(), "/metrics");
    CHECK_THAT(metrics, Contains("simurgh_ps_table_cooled_total") &&
                            Contains("simurgh_ps_table_warmed_total") &&
                            Contains("simurgh_ps_table_cold_rows"));
    CHECK_THAT(metrics, Contains("simurgh_rpc_calls_total{code=\"OK\",method=\"read_rows_ahead\""));
    CHECK_THAT(metrics, !Contains("INVALID_ARGUMENT"));
  }
  outcome.rows = cluster.StopServersForDigests();
  return outcome;
}

void CheckEqual(const Outcome& a, const Outcome& b) {
  CHECK(a.trainer.test_auc == b.trainer.test_auc);
  CHECK(a.trainer.test_log_loss == b.trainer.test_log_loss);
  CHECK(a.trainer.network_digest == b.trainer.network_digest);
  CHECK(a.rows == b.rows);
}

TEST_CASE("Training with cold rows gives the same model, bit by bit") {
  const std::vector<std::string> mode =
      GENERATE(std::vector<std::string>{"training.mode=sync"},
               std::vector<std::string>{"training.staleness=1", "training.reproducible=true"},
               std::vector<std::string>{"training.staleness=4", "training.reproducible=true"});
  CAPTURE(mode);
  const TemporaryFolder folder;
  const Outcome expected = Train(mode, {});
  CheckEqual(Train(mode, Memory(24, folder.path())), expected);
  CheckEqual(Train(mode, Memory(12, folder.path()), /*servers=*/1), expected);
}

TEST_CASE("A checkpoint has cold rows, and training continues from it with any memory") {
  const TemporaryFolder folder;
  const auto part = [&](const std::string& model, int steps, uint64_t memory_rows) {
    return Train(
        {"training.mode=sync", "training.epochs=2", "checkpoint.every_steps=20",
         "checkpoint.directory=" + folder.Path(model), absl::StrCat("training.max_steps=", steps)},
        Memory(memory_rows, folder.path()));
  };
  const Outcome expected = part("memory", 300, 0);
  part("cold", 90, 24);
  part("cold", 170, 0);
  CheckEqual(part("cold", 300, 40), expected);
  DaemonProcess diff("simurgh", {"model", "diff", folder.Path("memory"), folder.Path("cold")},
                     folder.Path("log"));
  CHECK(diff.Wait(60s) == 0);
}

TEST_CASE("Keys of cold rows that miss each other are refused") {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& override) {
    DaemonProcess daemon(
        "embedding-ps",
        {"--config", "config/adult-persia.yaml", "--set", override, "--check-config"},
        folder.Path("log"));
    CHECK(daemon.Wait(60s) == 2);
    return daemon.log();
  };
  CHECK_THAT(refusal("tables.0.memory_rows=10"), Contains("set embedding_ps.cold_directory"));
  CHECK_THAT(refusal("embedding_ps.cold_directory=/tmp"),
             Contains("embedding_ps.cold_directory: no row is moved there") &&
                 Contains("set embedding_ps.memory_budget"));
  CHECK_THAT(refusal("embedding_ps.cold_directory=here"), Contains("is not an absolute path"));
}

TEST_CASE("A folder for cold rows that does not exist is named at the start") {
  const TemporaryFolder folder;
  DaemonProcess daemon("embedding-ps",
                       {"--config", "config/adult-persia.yaml", "--set", "tables.0.memory_rows=10",
                        "--set", "embedding_ps.cold_directory=/nonexistent", "--set",
                        "embedding_ps.instances.0.address=unix://" + folder.Path("ps"), "--set",
                        "embedding_ps.instances.0.metrics=127.0.0.1:0"},
                       folder.Path("log"));
  CHECK(daemon.Wait(60s).value_or(0) != 0);
  CHECK_THAT(daemon.log(), Contains("/nonexistent: No such file or directory"));
}

}  // namespace
}  // namespace simurgh::testing
