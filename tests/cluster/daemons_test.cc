// Real daemons doing what they are for.

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <signal.h>
#include <sys/wait.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/http_get.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

const std::vector<std::string> kReproducible{"training.reproducible=true",
                                             "training.max_steps=150"};

TestClusterOptions Reproducible(size_t servers, const std::string& staleness) {
  TestClusterOptions options{.servers = servers, .overrides = kReproducible};
  options.overrides.push_back("training.staleness=" + staleness);
  return options;
}

TrainerOutcome RunOn(const TestClusterOptions& options) {
  TestCluster cluster(options);
  const auto trainer = cluster.StartTrainer();
  return Finish(*trainer);
}

void CheckSame(const TrainerOutcome& left, const TrainerOutcome& right) {
  CHECK(left.test_auc == right.test_auc);
  CHECK(left.test_log_loss == right.test_log_loss);
  CHECK(left.network_digest == right.network_digest);
}

TEST_CASE(
    "Reproducible runs agree to the last bit: twice, with 1 to 3 servers, and in one process") {
  const std::string staleness = GENERATE("1", "4");
  CAPTURE(staleness);
  const TrainerOutcome first = RunOn(Reproducible(2, staleness));
  REQUIRE(first.exit_code == 0);
  REQUIRE_FALSE(first.test_auc.empty());
  REQUIRE_FALSE(first.network_digest.empty());
  for (const size_t servers : {1, 2, 3}) {
    CAPTURE(servers);
    CheckSame(first, RunOn(Reproducible(servers, staleness)));
  }
  CheckSame(first, RunStandalone(Reproducible(2, staleness)));

  // The comparison is able to fail: another seed gives another result.
  TestClusterOptions other = Reproducible(2, staleness);
  other.overrides.emplace_back("cluster.seed=99");
  CHECK(RunStandalone(other).network_digest != first.network_digest);
}

TEST_CASE(
    "Vectors that are rounded on the wire are rounded alike with daemons and in one process") {
  TestClusterOptions options = Reproducible(2, "4");
  options.overrides.insert(options.overrides.end(), {"training.embedding_precision=bf16",
                                                     "training.gradient_precision=int8"});
  const TrainerOutcome daemons = RunOn(options);
  REQUIRE(daemons.exit_code == 0);
  CheckSame(daemons, RunStandalone(options));
}

TEST_CASE("Rows that the trainer pools train what the embedding worker's embeddings do") {
  TestClusterOptions options = Reproducible(2, "4");
  options.overrides.emplace_back("training.embeddings=pooled");
  const TrainerOutcome pooled = RunOn(options);
  REQUIRE(pooled.exit_code == 0);
  options.overrides.back() = "training.embeddings=auto";
  CheckSame(pooled, RunOn(options));
  options.overrides.back() = "training.embeddings=rows";
  CheckSame(pooled, RunOn(options));
  CheckSame(pooled, RunStandalone(options));
  // Rows that are rounded are not embeddings that are.
  options.overrides.emplace_back("training.embedding_precision=bf16");
  const TrainerOutcome rounded = RunOn(options);
  REQUIRE(rounded.exit_code == 0);
  CHECK(rounded.network_digest != pooled.network_digest);
  CheckSame(rounded, RunStandalone(options));
}

TEST_CASE("The last line of a trainer is its result") {
  const TrainerOutcome outcome = RunStandalone(Reproducible(1, "1"));
  CHECK_THAT(
      outcome.last_line,
      Catch::Matches("test_auc=0\\.[0-9]{4} test_logloss=0\\.[0-9]{4} samples_per_sec=[0-9]+"));
}

TEST_CASE("Several embedding workers share a run") {
  TestClusterOptions options = Reproducible(2, "4");
  const TrainerOutcome one = RunOn(options);
  options.workers = 2;
  const TrainerOutcome two = RunOn(options);
  REQUIRE(two.exit_code == 0);
  CheckSame(one, two);
}

TEST_CASE("SIGTERM drains every daemon and ends it with 0") {
  TestCluster cluster({.overrides = {"training.epochs=1000"}});
  const auto trainer = cluster.StartTrainer({"training.progress_interval=50ms"});
  REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  trainer->Signal(SIGTERM);
  CHECK(trainer->Wait(30s) == 0);
  cluster.worker(0).Signal(SIGTERM);
  CHECK(cluster.worker(0).Wait(30s) == 0);
  for (size_t server : {0, 1}) {
    cluster.server(server).Signal(SIGTERM);
    CHECK(cluster.server(server).Wait(30s) == 0);
  }
}

bool Counted(const std::string& metrics, const std::string& counter) {
  return metrics.find("\n" + counter) != std::string::npos &&
         metrics.find("\n" + counter + " 0\n") == std::string::npos;
}

// Checks the endpoints of a ready daemon and that `metric` is above 0 within a minute. (A trainer
// reports its first step before it pushes it.)
void CheckEndpoint(DaemonProcess& daemon, const std::string& metric) {
  REQUIRE(daemon.WaitForLog("serves /metrics", 60s));
  const std::string address = daemon.metrics_address();
  CAPTURE(address, metric);
  CHECK_THAT(HttpGet(address, "/healthz"), Catch::StartsWith("HTTP/1.1 200"));
  CHECK_THAT(HttpGet(address, "/readyz"), Catch::StartsWith("HTTP/1.1 200"));
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  std::string metrics;
  do {
    metrics = HttpGet(address, "/metrics");
    REQUIRE_THAT(metrics, Catch::StartsWith("HTTP/1.1 200"));
  } while (!Counted(metrics, metric) && std::chrono::steady_clock::now() < deadline);
  CHECK(Counted(metrics, metric));
}

TEST_CASE("Every daemon serves its health and what it counts") {
  TestCluster cluster({.overrides = {"training.epochs=1000"}});
  const auto trainer = cluster.StartTrainer({"training.progress_interval=50ms"});
  REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  CheckEndpoint(*trainer, "simurgh_nn_steps_total");
  CheckEndpoint(cluster.worker(0), "simurgh_worker_unique_rows_total");
  for (const size_t server : {0, 1}) {
    CheckEndpoint(cluster.server(server), "simurgh_ps_rows_updated_total");
    for (const char* of_table : {"rows", "bytes", "hits_total", "admissions_total", "distinct_ids",
                                 "row_age_steps_count"}) {
      CheckEndpoint(cluster.server(server), absl::StrCat("simurgh_ps_table_", of_table, "{"));
    }
  }
}

TEST_CASE("Tables have one series for all partitions, and gauges one once they have a value") {
  TestCluster cluster({.servers = 2, .overrides = {"embedding_ps.partitions=3"}});
  const auto trainer = cluster.StartTrainer({"training.max_steps=20"});
  REQUIRE(Finish(*trainer).exit_code == 0);
  const std::string metrics = HttpGet(cluster.server(1).metrics_address(), "/metrics");
  for (const std::string name : {"\nsimurgh_ps_table_rows{", "\nsimurgh_ps_table_bytes{"}) {
    size_t series = 0;
    for (size_t at = 0; (at = metrics.find(name, at)) != std::string::npos; ++at) ++series;
    CHECK(series == 8);  // One of each table.
  }
  CHECK_THAT(metrics, !Catch::Contains("partition=") && !Catch::Contains("server=\""));
  CHECK_THAT(metrics, !Catch::Contains("simurgh_ps_save_seconds"));  // Nothing has been saved.
}

TEST_CASE("An address in use ends a daemon with 2, naming file, line, key and remedy") {
  const TemporaryFolder folder;
  const std::string socket = "unix://" + folder.path() + "/taken.sock";
  const std::vector<std::string> arguments{
      "--config", "config/adult-persia.yaml",
      "--set",    "embedding_ps.instances.0.metrics=127.0.0.1:0",
      "--set",    "embedding_ps.instances.0.address=\"" + socket + "\""};
  DaemonProcess first("embedding-ps", arguments, folder.path() + "/first.log");
  REQUIRE(first.WaitForLog("listening at", 60s));
  DaemonProcess second("embedding-ps", arguments, folder.path() + "/second.log");
  CHECK(second.Wait(60s) == 2);
  CHECK_THAT(second.log(), Catch::Contains("embedding_ps.instances.0.address") &&
                               Catch::Contains("in use") && Catch::Contains("choose another"));
}

// Waits for the trainer, which a wrong address must end before it trains; its log.
std::string LogOfRefused(DaemonProcess& trainer) {
  CHECK(trainer.Wait(60s) == 3);
  CHECK_THAT(trainer.log(), !Catch::Contains("trained:"));
  return trainer.log();
}

TEST_CASE("Too few open files end a daemon with 3, naming the limit") {
  const TemporaryFolder folder;
  const std::string daemon = GENERATE("embedding-ps", "embedding-worker");
  const std::string section = daemon == "embedding-ps" ? "embedding_ps" : "embedding_worker";
  for (int files = 6; files <= 11; ++files) {
    CAPTURE(daemon, files);
    const std::string log = folder.Path("log");
    const std::string command = absl::StrCat(
        "prlimit --nofile=", files, ":", files, " ", std::getenv("SIMURGH_BIN_DIR"), "/", daemon,
        " --config config/adult.yaml --set '", section, ".instances=[{address: \"unix://",
        folder.Path("socket"), "\"}]' > ", log, " 2>&1");
    const int status = std::system(command.c_str());
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 3);
    std::stringstream text;
    text << std::ifstream(log).rdbuf();
    CHECK_THAT(text.str(), Catch::Contains("limit of open files"));
  }
}

TEST_CASE("Too little address space or stack ends a program with 3, naming the limit") {
  const TemporaryFolder folder;
  const std::string log = folder.Path("log");
  for (const std::string program :
       {"embedding-ps --config config/adult.yaml", "embedding-worker --config config/adult.yaml",
        "nn-worker --config config/adult.yaml --standalone",
        "simurgh predict --model m --input i --output o",
        "simurgh serve --model m --listen 127.0.0.1:0"}) {
    for (const std::string limit : {"--as=81920000", "--as=92160000", "--as=112640000",
                                    "--as=200000000", "--stack=65536", "--stack=131072"}) {
      CAPTURE(program, limit);
      const int status =
          std::system(absl::StrCat("prlimit ", limit, " ", std::getenv("SIMURGH_BIN_DIR"), "/",
                                   program, " > ", log, " 2>&1")
                          .c_str());
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 3);
      std::stringstream text;
      text << std::ifstream(log).rdbuf();
      CHECK_THAT(
          text.str(),
          Catch::StartsWith(program.substr(0, program.find(' ')) + ": error: the limit of ") &&
              Catch::Contains(limit.starts_with("--as") ? "(ulimit -v)" : "(ulimit -s)"));
    }
  }
}

TEST_CASE("Servers in another order, and a server under two names, are refused") {
  const std::string host = OwnHost();
  const std::string one = host + ":7401";
  const std::string two = host + ":7402";
  const std::string other_worker = "embedding_worker.instances.0.address=" + host + ":7499";
  TestCluster cluster({.overrides = {"training.retry_deadline=2s"}, .tcp_host = host});
  const TemporaryFolder folder;
  const auto log_of_run = [&](const std::string& first, const std::string& second) {
    DaemonProcess worker(
        "embedding-worker",
        cluster.Arguments({"embedding_ps.instances.0.address=" + first,
                           "embedding_ps.instances.1.address=" + second, other_worker}),
        folder.path() + "/worker.log");
    REQUIRE(worker.WaitForLog("listening at", 60s));
    return LogOfRefused(*cluster.StartTrainer({other_worker}));
  };
  // Both are wrong; the first that answers is named.
  CHECK_THAT(log_of_run(two, one),
             Catch::Contains("embedding_ps.instances.0.address: " + two +
                             " is embedding-ps 1, which the configuration has at " + one) ||
                 Catch::Contains("embedding_ps.instances.1.address: " + one +
                                 " is embedding-ps 0, which the configuration has at " + two));
  const std::string alias = "[::ffff:" + host + "]:7401";
  CHECK_THAT(log_of_run(one, "\"" + alias + "\""),
             Catch::Contains("embedding_ps.instances.1.address: " + alias +
                             " is embedding-ps 0, which the configuration has at " + one));
}

TEST_CASE("A trainer refuses a server in place of an embedding worker") {
  const std::string host = OwnHost();
  TestCluster cluster({.overrides = {"training.retry_deadline=2s"}, .tcp_host = host});
  const auto trainer =
      cluster.StartTrainer({"embedding_ps.instances.0.address=" + host + ":7499",
                            "embedding_worker.instances.0.address=" + host + ":7401"});
  CHECK_THAT(LogOfRefused(*trainer),
             Catch::Contains("embedding_worker.instances.0.address: " + host +
                             ":7401 is embedding-ps, expected embedding-worker"));
}

TEST_CASE("Daemons of different configurations refuse one another by name") {
  TestCluster cluster({});
  const auto trainer = cluster.StartTrainer(
      {"cluster.seed=12345", "tables.0.weight_bound=9", "training.retry_deadline=2s"});
  CHECK(trainer->Wait(60s) == 3);
  const std::string difference =
      "configurations differ: cluster.seed = 1 (embedding-worker/0), 12345 (nn-worker/0); "
      "tables.0.weight_bound = 10 (embedding-worker/0), 9 (nn-worker/0); start all daemons with";
  CHECK_THAT(trainer->log(), Catch::Contains(difference));
  CHECK_THAT(cluster.worker(0).log(), Catch::Contains(difference));
}

}  // namespace
}  // namespace simurgh::testing
