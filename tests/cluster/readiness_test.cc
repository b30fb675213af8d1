// What /readyz and the log tell while a daemon waits for others.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <signal.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/http_get.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

constexpr std::chrono::seconds kDeadline{60};

std::string Readyz(DaemonProcess& daemon) {
  REQUIRE(daemon.WaitForLog("serves /metrics", kDeadline));
  return HttpGet(daemon.metrics_address(), "/readyz");
}

// Waits until the answer begins with the status and contains the text.
void AwaitReadyz(DaemonProcess& daemon, const std::string& status, const std::string& text) {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  const auto matches = [&](const std::string& answer) {
    return answer.starts_with("HTTP/1.1 " + status) && answer.find(text) != std::string::npos;
  };
  std::string answer;
  do {
    answer = Readyz(daemon);
  } while (!matches(answer) && std::chrono::steady_clock::now() < end);
  INFO(daemon.log());
  CHECK_THAT(answer, Catch::StartsWith("HTTP/1.1 " + status) && Catch::Contains(text));
  CHECK_THAT(HttpGet(daemon.metrics_address(), "/healthz"), Catch::StartsWith("HTTP/1.1 200"));
}

std::unique_ptr<DaemonProcess> StartWorker(const TestCluster& cluster,
                                           const std::vector<std::string>& overrides,
                                           const std::string& log) {
  return std::make_unique<DaemonProcess>("embedding-worker", cluster.Arguments(overrides), log);
}

TEST_CASE("A worker is ready while it reaches every server") {
  TestCluster cluster({.servers = 2});
  AwaitReadyz(cluster.server(0), "200", "ready");
  AwaitReadyz(cluster.worker(0), "200", "ready");
  cluster.server(1).Signal(SIGKILL);
  REQUIRE(cluster.server(1).Wait(kDeadline));
  AwaitReadyz(cluster.worker(0), "503", "waiting for embedding-ps 1: ");
  CHECK_THAT(HttpGet(cluster.worker(0).metrics_address(), "/metrics"),
             Catch::Contains("\nsimurgh_process_ready 0\n"));
  CHECK_THAT(cluster.worker(0).log(),
             Catch::Contains("embedding-worker/0") &&
                 Catch::Contains("waiting for a peer: peer='embedding-ps 1'"));
  cluster.RestartServer(1);
  AwaitReadyz(cluster.worker(0), "200", "ready");
  CHECK_THAT(HttpGet(cluster.worker(0).metrics_address(), "/metrics"),
             Catch::Contains("\nsimurgh_process_ready 1\n"));
}

TEST_CASE("A host that does not resolve and a missing peer are waited for and named") {
  const TemporaryFolder folder;
  TestCluster cluster({.servers = 1, .overrides = {"training.retry_deadline=1s"}});
  const std::string nowhere = "embedding_ps.instances.0.address=ps-0.invalid:7401";
  const std::string address = "embedding_worker.instances=[{address: \"unix://" +
                              folder.Path("worker") + "\", metrics: \"127.0.0.1:0\"}]";
  {
    const auto worker = StartWorker(cluster, {address, nowhere}, folder.Path("worker.log"));
    AwaitReadyz(*worker, "503", "ps-0.invalid:7401");
    CHECK(worker->WaitForLog("peer='embedding-ps 0'", kDeadline));
    // The trainer waits for the worker, which waits for the server; longer than any deadline of a
    // call.
    const auto trainer = cluster.StartTrainer({address, nowhere, "training.max_steps=10"});
    AwaitReadyz(*trainer, "503", "waiting for embedding-worker 0: waiting for embedding-ps 0: ");
    worker->Signal(SIGTERM);
    CHECK(worker->Wait(kDeadline) == 0);
    AwaitReadyz(*trainer, "503", "cannot reach unix://" + folder.Path("worker"));
    trainer->Signal(SIGTERM);
    CHECK(trainer->Wait(kDeadline) == 0);
  }
  const auto trainer = cluster.StartTrainer({address, "training.max_steps=10"});
  AwaitReadyz(*trainer, "503", "waiting for embedding-worker 0");
  const auto worker = StartWorker(cluster, {address}, folder.Path("late.log"));
  CHECK(Finish(*trainer).exit_code == 0);
}

TEST_CASE("A daemon waits for the name of its own host") {
  const TemporaryFolder folder;
  DaemonProcess server("embedding-ps",
                       {"--config", "config/adult-persia.yaml", "--set",
                        "embedding_ps.instances=[{address: \"ps-0.invalid:7401\", metrics: "
                        "\"127.0.0.1:0\"}]"},
                       folder.Path("log"));
  AwaitReadyz(server, "503", "host 'ps-0.invalid' does not resolve");
  CHECK(server.WaitForLog("embedding_ps.instances.0.address: host 'ps-0.invalid'", kDeadline));
  server.Signal(SIGTERM);
  CHECK(server.Wait(kDeadline) == 0);
}

TEST_CASE("Ranks and loaders wait for ranks that have not started") {
  TestCluster cluster({.ranks = 2});
  const auto first = cluster.StartTrainer({"training.max_steps=10"}, 0);
  AwaitReadyz(*first, "503", "waiting for nn-worker 1: ");
  const auto second = cluster.StartTrainer({"training.max_steps=10"}, 1);
  CHECK(Finish(*first).exit_code == 0);
  CHECK(Finish(*second).exit_code == 0);

  TestCluster fed({.loaders = 1, .overrides = {"training.max_steps=10"}});
  const auto loader = fed.StartLoader(0);
  AwaitReadyz(*loader, "503", "waiting for nn-worker 0: ");
  const auto trainer = fed.StartTrainer();
  CHECK(Finish(*trainer).exit_code == 0);
  CHECK(loader->Wait(kDeadline) == 0);
}

TEST_CASE("A trainer is ready while it trains, and not once a worker is lost") {
  TestCluster cluster({.overrides = {"training.epochs=1000"}});
  const auto trainer = cluster.StartTrainer({"training.progress_interval=50ms"});
  REQUIRE(trainer->WaitForLog("samples_per_s=", kDeadline));
  AwaitReadyz(*trainer, "200", "ready");
  // Stopped, not ended: connections stay open.
  cluster.worker(0).Signal(SIGSTOP);
  AwaitReadyz(*trainer, "503", "waiting for embedding-worker 0: ");
  cluster.worker(0).Signal(SIGCONT);
  AwaitReadyz(*trainer, "200", "ready");
}

}  // namespace
}  // namespace simurgh::testing
