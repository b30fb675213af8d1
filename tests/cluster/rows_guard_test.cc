// What servers refuse, in a running training: numbers that are not finite, and a second run.

#include <limits>
#include <regex>

#include <signal.h>

#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "base/hash.h"
#include "embedding/bucket_map.h"
#include "services/api/row_rpc.h"
#include "services/runtime/daemon.h"
#include "services/runtime/io_thread.h"
#include "tests/support/http_get.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

const std::vector<std::string> kEndless{"training.epochs=100000",
                                        "training.progress_interval=50ms"};

// A client of one server with the HELLO of an embedding worker.
class Stranger {
 public:
  Stranger(const TestCluster& cluster, size_t server)
      : config_(LoadClusterConfig("config/adult-persia.yaml", cluster.Overrides()).value()),
        context_("embedding-worker", config_, MakeRpcOptions(config_.rpc).value(),
                 config_.embedding_worker.instances[0], 0),
        server_(server) {
    io_.RunAndWait([this] {
      client_ = std::make_unique<RowClient>(
          "server",
          std::make_unique<PeerClients>(io_.executor(),
                                        config_.embedding_ps.instances[server_].address,
                                        context_.hello(), context_.rpc_options().client, nullptr),
          MapOf(config_).version());
    });
  }
  ~Stranger() {
    io_.RunAndWait([this] { client_.reset(); });
  }

  // Pushes NaN to the rows of these words that are on the server. Returns their number.
  uint32_t PushNan(uint32_t table, const std::vector<std::string>& words) {
    std::vector<std::vector<uint64_t>> by_partition(config_.embedding_ps.partitions);
    const BucketMap map = MapOf(config_);
    for (const std::string& word : words) {
      const uint64_t id = HashBytes(word, 0);
      const uint32_t slot = map.SlotOf(id);
      if (slot / map.partitions() == server_) by_partition[slot % map.partitions()].push_back(id);
    }
    const uint32_t dim = config_.tables[table].dim;
    RowGroup group{table, dim, {}};
    std::vector<uint64_t> ids;
    for (const auto& part : by_partition) {
      group.counts.push_back(static_cast<uint32_t>(part.size()));
      ids.insert(ids.end(), part.begin(), part.end());
    }
    const std::vector<RowGroup> groups{group};
    const std::vector<float> rates{0.1F};
    const std::vector<float> gradients(ids.size() * dim, std::numeric_limits<float>::quiet_NaN());
    const auto push = [&]() -> rpc::awaitable<StatusOr<PushReport>> {
      PushRowsCall call{.step_id = {.run = 666},
                        .groups = groups,
                        .learning_rates = rates,
                        .ids = ids,
                        .gradients = std::as_bytes(std::span(gradients))};
      co_return co_await client_->Push(call, {rpc::Clock::now() + std::chrono::minutes(1)});
    };
    const auto report = rpc::asio::co_spawn(io_.executor(), push, rpc::asio::use_future).get();
    INFO(report.status().ToString());
    REQUIRE(report.ok());
    return static_cast<uint32_t>(ids.size());
  }

 private:
  const ClusterConfig config_;
  const DaemonContext context_;
  const uint32_t server_;
  IoThread io_{"stranger"};
  std::unique_ptr<RowClient> client_;
};

TEST_CASE("NaN pushed into a running training is dropped, counted and without effect") {
  const std::string mode = GENERATE("hybrid", "sync");
  TestCluster cluster({.overrides = {"training.epochs=4", "training.progress_interval=50ms",
                                     "embedding_ps.concurrent_runs=allow", "training.mode=" + mode},
                       .tcp_host = OwnHost()});
  const auto trainer = cluster.StartTrainer();
  REQUIRE(trainer->WaitForLog("samples_per_s=", 60s));
  const std::vector<std::string> words{"Private", "State-gov", "Self-emp-inc", "Local-gov", "?"};
  std::vector<uint32_t> pushed;
  for (const size_t server : {0, 1}) {
    pushed.push_back(Stranger(cluster, server).PushNan(/*table=*/0, words));
  }
  REQUIRE(pushed[0] + pushed[1] == words.size());
  const TrainerOutcome outcome = Finish(*trainer);
  INFO(trainer->log());
  CHECK(outcome.exit_code == 0);
  CHECK(std::stod(outcome.test_auc) > 0.88);
  for (const size_t server : {0, 1}) {
    const std::string text = HttpGet(cluster.server(server).metrics_address(), "/metrics");
    const std::string counter = "simurgh_ps_table_gradients_not_finite_total{table=\"workclass\"} ";
    if (pushed[server] == 0) {
      CHECK_THAT(text, !Catch::Contains(counter));
      continue;
    }
    CHECK_THAT(text, Catch::Contains(counter + std::to_string(pushed[server]) + "\n"));
    CHECK_THAT(cluster.server(server).log(), Catch::Contains("not finite: table=workclass") &&
                                                 Catch::Contains("run=000000000000029a"));
  }
}

TEST_CASE("A second run waits for the end of the first") {
  const std::string mode = GENERATE("hybrid", "async");
  TestCluster cluster({.overrides = {"training.mode=" + mode}});
  const auto first = cluster.StartTrainer(kEndless);
  REQUIRE(first->WaitForLog("samples_per_s=", 60s));
  const auto impatient = cluster.StartTrainer({"training.retry_deadline=1s"});
  CHECK(impatient->Wait(60s) == 3);
  CHECK_THAT(impatient->log(), Catch::Contains("embedding_ps.concurrent_runs: allow"));
  const auto second = cluster.StartTrainer({"training.max_steps=50"});
  REQUIRE(second->WaitForLog("trains here", 60s));
  std::smatch run;
  const std::string log = first->log();
  REQUIRE(std::regex_search(log, run, std::regex("training starts: (run)=([0-9a-f]{16})")));
  CHECK_THAT(second->log(), Catch::Contains("run " + run[2].str() + " trains here"));
  first->Signal(SIGTERM);
  CHECK(first->Wait(60s) == 0);
  CHECK(Finish(*second).exit_code == 0);
}

TEST_CASE(
    "A run that saves its model waits for the end of another training, and refuses its rows") {
  const TemporaryFolder folder;
  TestCluster cluster({.overrides = {"checkpoint.directory=" + folder.path() + "/model"}});
  const auto first = cluster.StartTrainer({"checkpoint={}", kEndless[0], kEndless[1]});
  REQUIRE(first->WaitForLog("samples_per_s=", 60s));
  const auto second = cluster.StartTrainer({"training.max_steps=50"});
  REQUIRE(second->WaitForLog("preparing rows: ", 60s));
  CHECK_THAT(second->log(), Catch::Contains("trains here"));
  first->Signal(SIGTERM);
  CHECK(first->Wait(60s) == 0);
  CHECK(Finish(*second).exit_code == 3);
  CHECK_THAT(second->log(), Catch::Contains("rows of another training; restart it"));
  for (size_t server = 0; server < 2; ++server) {
    cluster.server(server).Signal(SIGTERM);
    REQUIRE(cluster.server(server).Wait(60s) == 0);
    cluster.RestartServer(server);
  }
  CHECK(Finish(*cluster.StartTrainer({"training.max_steps=50"})).exit_code == 0);
}

TEST_CASE("--check-config refuses what every start refuses") {
  const TemporaryFolder folder;
  const std::pair<std::string, std::string> wrong =
      GENERATE(values<std::pair<std::string, std::string>>({
          {"tables.0.capacity_rows=1099511627776", "capacity_rows"},
          {"model.towers.2.layers=[{linear: 65536}, {linear: 65536}, {linear: 1}]", "weights"},
          {"embedding_ps.instances.0.address=0.0.0.0:7401", "rpc.security is loopback"},
          {"embedding_ps.instances.0.address=auto://0.0.0.0:7401", "rpc.security is loopback"},
          {"embedding_ps.instances.0.address=[::]:7401", "rpc.security is loopback"},
      }));
  CAPTURE(wrong.first);
  DaemonProcess check(
      "nn-worker", {"--config", "config/adult-persia.yaml", "--check-config", "--set", wrong.first},
      folder.Path("check.log"));
  CHECK(check.Wait(60s) == 2);
  CHECK_THAT(check.log(), Catch::Contains(wrong.second));
}

}  // namespace
}  // namespace simurgh::testing
