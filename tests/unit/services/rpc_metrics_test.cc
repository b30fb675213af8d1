#include "services/runtime/rpc_metrics.h"

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

TEST_CASE("what the RPC library reports is counted by side, method and code") {
  MetricRegistry registry;
  RpcMetrics server(registry, RpcSide::kServer);
  RpcMetrics second_server(registry, RpcSide::kServer);
  RpcMetrics client(registry, RpcSide::kClient);
  server.OnCallEnd("pull", absl::StatusCode::kOk, std::chrono::milliseconds(2));
  server.OnCallEnd("pull", absl::StatusCode::kOk, std::chrono::milliseconds(4));
  second_server.OnCallEnd("pull", absl::StatusCode::kOk, std::chrono::milliseconds(8));
  server.OnCallEnd("pull", absl::StatusCode::kUnavailable, std::chrono::milliseconds(16));
  client.OnCallEnd("push", absl::StatusCode::kDeadlineExceeded, std::chrono::seconds(1));
  client.OnBytesSent(100);
  client.OnBytesSent(11);
  client.OnBytesReceived(7);
  server.OnConnect("127.0.0.1:5");
  server.OnCut("127.0.0.1:5", rpc::CutReason::kMalformed, absl::DataLossError("bad magic"));
  server.OnDisconnect("127.0.0.1:5", absl::OkStatus());
  const std::string text = registry.Serialize();
  for (const char* line : {
           "simurgh_rpc_calls_total{code=\"OK\",method=\"pull\",side=\"server\"} 3\n",
           "simurgh_rpc_calls_total{code=\"UNAVAILABLE\",method=\"pull\",side=\"server\"} 1\n",
           "simurgh_rpc_calls_total{code=\"DEADLINE_EXCEEDED\",method=\"push\",side=\"client\"} "
           "1\n",
           "simurgh_rpc_call_seconds_count{method=\"pull\",side=\"server\"} 4\n",
           "simurgh_rpc_call_seconds_sum{method=\"push\",side=\"client\"} 1\n",
           "simurgh_rpc_sent_bytes_total{side=\"client\"} 111\n",
           "simurgh_rpc_sent_bytes_total{side=\"server\"} 0\n",
           "simurgh_rpc_received_bytes_total{side=\"client\"} 7\n",
           "simurgh_rpc_connects_total{side=\"server\"} 1\n",
           "simurgh_rpc_disconnects_total{side=\"server\"} 1\n",
           "simurgh_rpc_cuts_total{reason=\"malformed\",side=\"server\"} 1\n",
           "simurgh_rpc_cuts_total{reason=\"tls\",side=\"client\"} 0\n",
       }) {
    CHECK_THAT(text, Catch::Contains(line));
  }
}

}  // namespace
}  // namespace simurgh
