#include "services/runtime/rpc_metrics.h"

#include <spdlog/spdlog.h>

namespace simurgh {
namespace {

const char* Name(RpcSide side) { return side == RpcSide::kServer ? "server" : "client"; }

// spdlog's fmt knows neither absl::string_view nor a Status.
std::string Text(const Status& status) {
  return status.ok() ? "closed" : status.ToString(absl::StatusToStringMode::kWithNoExtraData);
}

}  // namespace

RpcMetrics::RpcMetrics(MetricRegistry& registry, RpcSide side)
    : registry_(registry),
      side_(Name(side)),
      sent_(registry.GetCounter("simurgh_rpc_sent_bytes_total", "Bytes written to connections.",
                                {{"side", side_}})),
      received_(registry.GetCounter("simurgh_rpc_received_bytes_total",
                                    "Bytes read from connections.", {{"side", side_}})),
      connects_(registry.GetCounter("simurgh_rpc_connects_total", "Connections opened.",
                                    {{"side", side_}})),
      disconnects_(registry.GetCounter("simurgh_rpc_disconnects_total",
                                       "Connections that ended, for whatever reason.",
                                       {{"side", side_}})) {
  for (size_t i = 0; i < cuts_.size(); ++i) {
    const std::string_view reason = rpc::NameOf(static_cast<rpc::CutReason>(i));
    cuts_[i].counter =
        &registry.GetCounter("simurgh_rpc_cuts_total", "Peers hung up on, by the reason they gave.",
                             {{"side", side_}, {"reason", std::string(reason)}});
  }
}

void RpcMetrics::OnCallEnd(std::string_view method, absl::StatusCode code,
                           std::chrono::nanoseconds duration) {
  MethodMetrics& metrics = ForMethod(method);
  metrics.duration->Observe(duration);
  ForCode(metrics, method, code).Add();
}

void RpcMetrics::OnConnect(std::string_view peer) {
  connects_.Add();
  spdlog::info("{}: connected", peer);
}

void RpcMetrics::OnDisconnect(std::string_view peer, const Status& reason) {
  disconnects_.Add();
  spdlog::info("{}: disconnected: {}", peer, Text(reason));
}

void RpcMetrics::OnCut(std::string_view peer, rpc::CutReason reason, const Status& status) {
  Cuts& cuts = cuts_[static_cast<size_t>(reason)];
  cuts.counter->Add();
  const std::optional<uint64_t> left_out = cuts.log.Admit(LogLimiter::Clock::now());
  if (!left_out) return;
  spdlog::warn("{}: cut off ({}): {}", peer, rpc::NameOf(reason), Text(status));
  if (*left_out != 0) {
    spdlog::warn("{} more peers were cut off ({}) since the last line about one", *left_out,
                 rpc::NameOf(reason));
  }
}

RpcMetrics::MethodMetrics& RpcMetrics::ForMethod(std::string_view method) {
  const std::string name(method);
  const auto found = methods_.find(name);
  if (found != methods_.end()) return found->second;
  Histogram& duration =
      registry_.GetHistogram("simurgh_rpc_call_seconds", "From a call's start to its answer.",
                             LatencyBuckets(), {{"side", side_}, {"method", name}});
  return methods_.emplace(name, MethodMetrics{&duration, {}}).first->second;
}

Counter& RpcMetrics::ForCode(MethodMetrics& metrics, std::string_view method,
                             absl::StatusCode code) {
  Counter*& counter = metrics.calls[code];
  if (counter == nullptr) {
    counter = &registry_.GetCounter("simurgh_rpc_calls_total", "Calls that ended.",
                                    {{"side", side_},
                                     {"method", std::string(method)},
                                     {"code", absl::StatusCodeToString(code)}});
  }
  return *counter;
}

}  // namespace simurgh
