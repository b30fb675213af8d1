#include "services/simurgh/cluster_status.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

MetricsText Text(const std::string& text) { return MetricsText::Parse(text).value(); }

DaemonAnswers Ready(const std::string& kind, const std::string& before, const std::string& now) {
  return {.daemon = {.kind = kind, .index = 3},
          .is_reachable = true,
          .is_ready = true,
          .reason = "",
          .before = Text(before),
          .now = Text(now),
          .seconds = 2};
}

std::string Stages(double wait, double compute, double queued) {
  return "simurgh_nn_stage_seconds_sum{stage=\"wait\"} " + std::to_string(wait) +
         "\nsimurgh_nn_stage_seconds_sum{stage=\"compute\"} " + std::to_string(compute) +
         "\nsimurgh_nn_queued_batches " + std::to_string(queued) + "\n";
}

std::string Worker(const std::string& stage, double seconds, int batches) {
  const std::string name = "simurgh_worker_stage_seconds";
  return name + "_sum{stage=\"" + stage + "\"} " + std::to_string(seconds) + "\n" + name +
         "_count{stage=\"" + stage + "\"} " + std::to_string(batches) + "\n";
}

std::string Server(const std::string& method, double seconds, int calls) {
  const std::string name = "simurgh_rpc_call_seconds";
  const std::string labels = "{side=\"server\",method=\"" + method + "\"} ";
  return name + "_sum" + labels + std::to_string(seconds) + "\n" + name + "_count" + labels +
         std::to_string(calls) + "\n";
}

TEST_CASE("A line has what the daemon counts, and its rates between two scrapes") {
  const ClusterStatus status =
      StatusOf({Ready("nn-worker",
                      "simurgh_nn_samples_total 1000\nsimurgh_nn_staleness_steps_sum "
                      "10\nsimurgh_nn_staleness_steps_count 10\n",
                      "simurgh_nn_samples_total 5000\nsimurgh_nn_staleness_steps_sum "
                      "40\nsimurgh_nn_staleness_steps_count 20\nsimurgh_nn_queued_batches "
                      "16\nsimurgh_nn_checkpoint_step 77\nsimurgh_nn_checkpoint_time_seconds "
                      "990\nsimurgh_process_resident_bytes 2e9\n"),
                Ready("embedding-ps", "",
                      "simurgh_ps_table_rows{table=\"a\"} 5\nsimurgh_ps_table_rows{table=\"b\"} "
                      "7\nsimurgh_rpc_calls_in_flight{side=\"server\",method=\"pull_rows\"} 2\n"),
                Ready("embedding-worker", "", "simurgh_worker_forward_buffer_batches 4\n")},
               /*unix_time=*/1000);
  const DaemonLine& trainer = status.daemons[0];
  CHECK(trainer.name == "nn-worker/3");
  CHECK(trainer.state == "ready");
  CHECK(trainer.samples_per_second == 2000);
  CHECK(trainer.staleness == 3);
  CHECK(trainer.queue == 16);
  CHECK(trainer.checkpoint_step == 77);
  CHECK(trainer.checkpoint_age_seconds == 10);
  CHECK(trainer.memory_bytes == 2e9);
  CHECK_THAT(ToTable(status), Contains("  MEMORY   ") &&
                                  Contains("\nnn-worker/3         ready  -     1.9 GiB  ") &&
                                  Contains("\nembedding-ps/3      ready  12    -        "));
  CHECK(trainer.rows == std::nullopt);
  CHECK(status.daemons[1].rows == 12);
  CHECK(status.daemons[1].queue == 2);
  CHECK(status.daemons[2].queue == 4);
  CHECK(status.is_ready());
}

TEST_CASE("A daemon that has restarted between two scrapes has no rate") {
  const ClusterStatus status = StatusOf(
      {Ready("nn-worker", "simurgh_nn_samples_total 1000\n", "simurgh_nn_samples_total 10\n")}, 0);
  CHECK(status.daemons[0].samples_per_second == std::nullopt);
}

TEST_CASE("The table has a line for each daemon, with the reason of one that is not ready") {
  DaemonAnswers waiting = Ready("embedding-worker", "", "");
  waiting.is_ready = false;
  waiting.reason = "waiting for embedding-ps 0";
  const DaemonAnswers lost{.daemon = {.kind = "embedding-ps"}, .reason = "a:1: Connection refused"};
  const ClusterStatus status = StatusOf({lost, waiting}, 0);
  CHECK_FALSE(status.is_ready());
  const std::string table = ToTable(status);
  CHECK_THAT(table, StartsWith("DAEMON              STATE "));
  CHECK_THAT(table, Contains("\nembedding-ps/0      unreachable  -     "));
  CHECK_THAT(table, Contains("\n  a:1: Connection refused\n"));
  CHECK_THAT(table, Contains("\nembedding-worker/3  not ready "));
  CHECK_THAT(table, Contains("\n  waiting for embedding-ps 0\n"));
  CHECK_THAT(table, Contains("bound by nothing: no nn-worker trains now\n"));
  CHECK(ToJson(status) ==
        "{\"ready\":false,\"bound\":\"nothing: no nn-worker trains now\",\"stale_reads\":"
        "0.0,\"daemons\":["
        "{\"daemon\":\"embedding-ps/0\",\"state\":\"unreachable\",\"reason\":\"a:1: Connection "
        "refused\",\"rows\":null,\"cold_rows\":null,\"memory_bytes\":null,\"samples_per_second\":"
        "null,\"staleness\":"
        "null,\"queue\":null,\"checkpoint_step\":null,\"checkpoint_age_seconds\":null},"
        "{\"daemon\":\"embedding-worker/3\",\"state\":\"not ready\",\"reason\":\"waiting for "
        "embedding-ps "
        "0\",\"rows\":null,\"cold_rows\":null,\"memory_bytes\":null,\"samples_per_second\":null,"
        "\"staleness\":null,\"queue\":null,\"checkpoint_step\":null,\"checkpoint_age_seconds\":"
        "null}]}\n");
}

TEST_CASE("Many reads that can lack gradients are told with staleness above 1 only") {
  const auto status_with = [](int staleness, int of_step, int young) {
    const std::string ages = "simurgh_ps_table_row_age_steps";
    return StatusOf(
        {Ready("nn-worker", "",
               "simurgh_nn_staleness_limit_steps " + std::to_string(staleness - 1) + "\n"),
         Ready("embedding-ps", "",
               ages + "_bucket{le=\"0\"} " + std::to_string(of_step) + "\n" + ages +
                   "_bucket{le=\"3\"} " + std::to_string(young) + "\n" + ages +
                   "_bucket{le=\"7\"} 90\n" + ages + "_count 100\n")},
        0);
  };
  // The daemons report one less than training.staleness.
  CHECK(status_with(4, 10, 40).reads.share() == Approx(0.3));
  CHECK(status_with(3, 10, 40).reads.share() == Approx(0.3));
  CHECK(status_with(5, 10, 40).reads.share() == Approx(0.8));
  CHECK_THAT(
      ToTable(status_with(4, 10, 40)),
      EndsWith("staleness: 30 % of the reads of rows can lack gradients of batches in flight. In "
               "short runs this costs accuracy; use training.staleness: 1\n"));
  CHECK_THAT(ToJson(status_with(4, 10, 40)), Contains("\"stale_reads\":0.3"));
  for (const auto& few : {status_with(1, 10, 40), status_with(4, 10, 19)}) {
    CHECK_THAT(ToTable(few), !Contains("lack gradients"));
  }
}

TEST_CASE("The stage that takes the most time bounds the throughput") {
  const auto bound = [](const std::string& trainer, const std::string& worker,
                        const std::string& server) {
    return StatusOf({Ready("nn-worker", Stages(5, 5, 16), trainer),
                     Ready("embedding-worker", "", worker), Ready("embedding-ps", "", server)},
                    0)
        .bound;
  };
  CHECK_THAT(bound(Stages(5.2, 6.8, 16), "", ""), StartsWith("nn-workers: the dense network takes "
                                                             "90 %"));
  CHECK_THAT(bound(Stages(6.8, 5.2, 0), Worker("pull", 1, 10), ""), StartsWith("reading: "));
  const std::string waits = Stages(6.8, 5.2, 16);
  CHECK_THAT(bound(waits, Worker("pull", 1, 10) + Worker("pool", 2, 10), ""),
             StartsWith("embedding workers: pool takes 200 ms per batch"));
  CHECK_THAT(bound(waits, Worker("pull", 2, 10), Server("pull_rows", 1.5, 10)),
             StartsWith("servers: pull of rows takes 200 ms per batch, 150 ms of it in "
                        "embedding-ps/3"));
  CHECK_THAT(bound(waits, Worker("push", 2, 10), Server("push_rows", 0.5, 10)),
             StartsWith("network between embedding workers and servers: push of rows takes 200 ms "
                        "per batch, 50 ms of it in embedding-ps/3"));
  // A pull that waits for the pushes of the step before it says nothing.
  CHECK_THAT(bound(waits, Worker("pull", 2, 10) + Worker("push", 1, 10),
                   Server("await_rows", 1.9, 10) + Server("push_rows", 0.8, 10)),
             StartsWith("servers: push of rows takes 100 ms per batch, 80 ms of it in "
                        "embedding-ps/3"));
  CHECK_THAT(bound(Stages(5, 5, 16), "", ""), StartsWith("nothing"));
}

TEST_CASE("A server that is four times as slow as another bounds the throughput") {
  const auto bound = [](double slow, double fast, const std::string& staleness) {
    DaemonAnswers other = Ready("embedding-ps", "", Server("pull_rows", fast, 100));
    other.daemon.index = 4;
    return StatusOf({Ready("nn-worker", Stages(5, 5, 16), Stages(6.8, 5.2, 16) + staleness),
                     Ready("embedding-worker", "", Worker("pull", 20, 100)), other,
                     Ready("embedding-ps", "", Server("pull_rows", slow, 100))},
                    0)
        .bound;
  };
  CHECK(bound(5, 1, "") ==
        "the slow server embedding-ps/3: pull of rows takes 200 ms per batch, 50 ms of it in "
        "embedding-ps/3, and 10 ms in embedding-ps/4; remove other load from its machine, or move "
        "it; nn-workers wait 90 % of their time");
  CHECK_THAT(bound(3, 1, ""), StartsWith("network between "));
  CHECK_THAT(bound(0.9, 0.1, ""), StartsWith("network between "));  // Below 10 ms.
  const auto staleness = [](int sum) {
    return "simurgh_nn_staleness_steps_sum " + std::to_string(sum) +
           "\nsimurgh_nn_staleness_steps_count 10\nsimurgh_nn_staleness_limit_steps 3\n";
  };
  CHECK_THAT(bound(5, 1, staleness(29)),
             EndsWith("; nn-workers wait 90 % of their time, and staleness is at its limit; a "
                      "larger training.staleness hides latency and can cost AUC"));
  CHECK_THAT(bound(5, 1, staleness(20)), EndsWith("; nn-workers wait 90 % of their time"));
}

}  // namespace
}  // namespace simurgh
