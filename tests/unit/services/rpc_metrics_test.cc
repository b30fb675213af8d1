#include <algorithm>

#include <catch2/catch.hpp>

#include "services/runtime/rpc_setup.h"
#include "telemetry/timeline.h"
#include "tests/unit/nn/log_lines.h"

namespace simurgh {
namespace {

constexpr rpc::MethodId kPull{.number = 1, .name = "pull"};
constexpr rpc::MethodId kPush{.number = 2, .name = "push"};

void Count(RpcMetrics& metrics, const rpc::MethodId& method, const Status& status,
           std::chrono::nanoseconds duration) {
  metrics.OnCallStart(method);
  metrics.OnCallEnd({.method = method,
                     .trace = {},
                     .status = status,
                     .duration = duration,
                     .request_bytes = 10,
                     .response_bytes = status.ok() ? uint64_t{1'000} : uint64_t{0}});
}

TEST_CASE("RPC events are counted by side, method and code") {
  MetricRegistry registry;
  RpcMetrics server(registry, RpcSide::kServer);
  RpcMetrics second_server(registry, RpcSide::kServer);
  RpcMetrics client(registry, RpcSide::kClient);
  Count(server, kPull, absl::OkStatus(), std::chrono::milliseconds(2));
  Count(server, kPull, absl::OkStatus(), std::chrono::milliseconds(4));
  Count(second_server, kPull, absl::OkStatus(), std::chrono::milliseconds(8));
  Count(server, kPull, absl::UnavailableError("gone"), std::chrono::milliseconds(16));
  Count(client, kPush, absl::DeadlineExceededError("late"), std::chrono::seconds(1));
  client.OnBytesSent(100);
  client.OnBytesSent(11);
  client.OnBytesReceived(7);
  server.OnClose("127.0.0.1:5", rpc::CloseReason::kMalformed, absl::DataLossError("bad magic"));
  server.OnThrottle("127.0.0.1:5", rpc::ThrottleReason::kTurn);
  server.OnThrottle("127.0.0.1:1", rpc::ThrottleReason::kAccept);
  const std::string text = registry.Serialize();
  for (const char* line : {
           "simurgh_rpc_calls_total{code=\"OK\",method=\"pull\",side=\"server\"} 3\n",
           "simurgh_rpc_calls_total{code=\"UNAVAILABLE\",method=\"pull\",side=\"server\"} 1\n",
           ("simurgh_rpc_calls_total{code=\"DEADLINE_EXCEEDED\",method=\"push\",side=\"client\"} "
            "1\n"),
           "simurgh_rpc_calls_in_flight{method=\"pull\",side=\"server\"} 0\n",
           "simurgh_rpc_request_bytes_total{method=\"pull\",side=\"server\"} 40\n",
           "simurgh_rpc_response_bytes_total{method=\"pull\",side=\"server\"} 3000\n",
           "simurgh_rpc_response_bytes_total{method=\"push\",side=\"client\"} 0\n",
           "simurgh_rpc_call_seconds_count{method=\"pull\",side=\"server\"} 4\n",
           "simurgh_rpc_call_seconds_sum{method=\"push\",side=\"client\"} 1\n",
           "simurgh_rpc_sent_bytes_total{side=\"client\"} 111\n",
           "simurgh_rpc_sent_bytes_total{side=\"server\"} 0\n",
           "simurgh_rpc_received_bytes_total{side=\"client\"} 7\n",
           "simurgh_rpc_closes_total{reason=\"malformed\",side=\"server\"} 1\n",
           "simurgh_rpc_throttles_total{reason=\"turn\",side=\"server\"} 1\n",
           "simurgh_rpc_throttles_total{reason=\"accept\",side=\"server\"} 1\n",
           "simurgh_rpc_closes_total{reason=\"tls\",side=\"client\"} 0\n",
       }) {
    CHECK_THAT(text, Catch::Contains(line));
  }
}

TEST_CASE("connections that come and go fill no log") {
  const testing::LogLines log;
  MetricRegistry registry;
  RpcMetrics server(registry, RpcSide::kServer);
  for (int i = 0; i < 1'000; ++i) {
    server.OnConnect("127.0.0.1:5");
    server.OnDisconnect("127.0.0.1:5", absl::UnavailableError("connection reset by peer"));
  }
  const std::string text = log.text();
  CHECK(std::ranges::count(text, '\n') < 100);
  CHECK_THAT(text, Catch::Contains("127.0.0.1:5: disconnected: suppressed_lines=0: UNAVAILABLE: "));
}

TEST_CASE("a normal end of a connection is no line at the level info") {
  const testing::LogLines log;
  MetricRegistry registry;
  RpcMetrics client(registry, RpcSide::kClient);
  for (const Status& reason : {absl::OkStatus(), absl::CancelledError("the client was stopped"),
                               absl::UnavailableError("the peer closed the connection"),
                               absl::UnavailableError("the server is stopping")}) {
    client.OnConnect("127.0.0.1:5");
    client.OnDisconnect("127.0.0.1:5", reason);
  }
  CHECK(log.text().empty());
}

TEST_CASE("calls in flight are counted until they end or their observer does") {
  MetricRegistry registry;
  const auto are_in_flight = [&](int calls) {
    const std::string name = "simurgh_rpc_calls_in_flight{method=\"pull\",side=\"client\"} ";
    CHECK_THAT(registry.Serialize(), Catch::Contains(name + std::to_string(calls) + "\n"));
  };
  RpcMetrics stays(registry, RpcSide::kClient);
  stays.OnCallStart(kPull);
  {
    RpcMetrics leaves(registry, RpcSide::kClient);
    leaves.OnCallStart(kPull);
    leaves.OnCallStart(kPull);
    Count(leaves, kPull, absl::OkStatus(), std::chrono::milliseconds(1));
    are_in_flight(3);
  }
  are_in_flight(1);
}

TEST_CASE("calls are spans of the timeline while it is recorded") {
  MetricRegistry registry;
  RpcMetrics server(registry, RpcSide::kServer);
  RpcMetrics client(registry, RpcSide::kClient);
  const auto end = [](RpcMetrics& metrics, std::chrono::nanoseconds duration) {
    metrics.OnCallStart(kPull);
    metrics.OnCallEnd({.method = kPull,
                       .trace = {.trace_id = 0xab, .span_id = 0xcd},
                       .status = absl::OkStatus(),
                       .duration = duration,
                       .end = rpc::Clock::now(),
                       .waited = std::chrono::nanoseconds(1'250)});
  };
  end(server, {});
  const auto timeline = Timeline::Record();
  end(server, {});
  end(client, {});
  end(client, std::chrono::hours(1));  // Began before the recording.
  const std::string json = timeline->Finish("test/0");
  const std::string ids = R"("trace":"00000000000000ab","span":"00000000000000cd")";
  CHECK_THAT(json, Catch::Contains(R"("name":"pull","cat":"handling")") &&
                       Catch::Contains(ids + R"(,"waited_us":1.250)"));
  CHECK_THAT(json, Catch::Contains(R"("name":"pull","cat":"call")") && Catch::Contains(ids + "}"));
  const std::string span = R"("ph":"X")";
  const size_t second = json.find(span, json.find(span) + 1);
  CHECK(second != std::string::npos);
  CHECK(json.find(span, second + 1) == std::string::npos);
}

}  // namespace
}  // namespace simurgh
