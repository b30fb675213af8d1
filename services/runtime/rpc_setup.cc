#include "services/runtime/rpc_setup.h"

#include <memory>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "rpc/tls.h"
#include "rpc/token.h"
#include "telemetry/timeline.h"

namespace simurgh {
namespace {

const CounterFamily kSentBytesTotal("simurgh_rpc_sent_bytes_total", "Bytes written to connections.",
                                    {"side"});
const CounterFamily kReceivedBytesTotal("simurgh_rpc_received_bytes_total",
                                        "Bytes read from connections.", {"side"});
const CounterFamily kCallsTotal("simurgh_rpc_calls_total", "Calls that ended.",
                                {"side", "method", "code"});
const HistogramFamily kCallSeconds("simurgh_rpc_call_seconds",
                                   "Duration of a call, or of its handler.", {"side", "method"});
const GaugeFamily kCallsInFlight("simurgh_rpc_calls_in_flight",
                                 "Calls that have started and not ended.", {"side", "method"});
const CounterFamily kRequestBytesTotal("simurgh_rpc_request_bytes_total",
                                       "Metadata and payload of requests.", {"side", "method"});
const CounterFamily kResponseBytesTotal("simurgh_rpc_response_bytes_total",
                                        "Metadata and payload of responses.", {"side", "method"});
const CounterFamily kClosesTotal("simurgh_rpc_closes_total",
                                 "Connections closed because of the peer, by reason.",
                                 {"side", "reason"});
const CounterFamily kThrottlesTotal("simurgh_rpc_throttles_total",
                                    "Times that a peer had to wait, by reason.",
                                    {"side", "reason"});

StatusOr<std::shared_ptr<const rpc::TlsContext>> LoadTls(const TlsConfig& config) {
  auto context = rpc::TlsContext::Load({.certificate_file = config.certificate,
                                        .key_file = config.key,
                                        .authority_file = config.authority,
                                        .peer_name = config.peer_name,
                                        .allowed_names = config.allowed_names});
  if (context.ok()) return context;
  // The message begins with the last part of the key.
  return absl::InvalidArgumentError(absl::StrCat(config.where, ".", context.status().message()));
}

}  // namespace

StatusOr<RpcOptions> MakeRpcOptions(const RpcConfig& config) {
  RpcOptions options;
  if (!config.token_file.empty()) {
    const auto token = rpc::Token::Load(config.token_file);
    if (!token.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(config.token_key, ": ", token.status().message()));
    }
    options.client.token = *token;
    options.server.token = *token;
  }
  if (config.security == Security::kTls) {
    SIMURGH_ASSIGN_OR_RETURN(options.server.tls, LoadTls(config.tls));
    options.client.tls = options.server.tls;
  }
  options.server.insecure = config.security == Security::kInsecure;
  options.client.connect_timeout = config.connect_timeout;
  options.client.stall_timeout = config.stall_timeout;
  options.client.max_frame_bytes = config.max_frame_bytes;
  options.server.max_frame_bytes = config.max_frame_bytes;
  options.server.max_connections = config.max_connections;
  options.server.max_connections_per_host = config.max_connections_per_host;
  options.server.max_request_bytes_per_connection = config.peer_memory_bytes;
  options.server.max_answer_bytes_per_connection = config.peer_memory_bytes;
  options.server.stall_timeout = config.stall_timeout;
  return options;
}

rpc::ClientOptions OptionsFor(rpc::ClientOptions options, const std::string& role,
                              const std::vector<InstanceConfig>& instances, size_t index) {
  options.check_server = [role, instances, index](const rpc::Hello& server) {
    const InstanceConfig& dialled = instances[index];
    const std::string what = absl::StrCat(dialled.address_key, ": ", dialled.address, " is ");
    if (server.role != role) {
      return absl::InvalidArgumentError(absl::StrCat(what, server.role, ", expected ", role,
                                                     "; use the address of ", role, " ", index));
    }
    if (server.index == index) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what, role, " ", server.index, ", which the configuration ",
                     server.index < instances.size() ? "has at " + instances[server.index].address
                                                     : "does not have",
                     "; use the same addresses in the same order for all daemons"));
  };
  return options;
}

namespace {

constexpr size_t kStatusCodes = 17;  // Number of status codes, ok and the canonical errors.

// Returns a string because spdlog's fmt formats neither absl::string_view nor a Status.
std::string Text(const Status& status) {
  return status.ok() ? "closed" : status.ToString(absl::StatusToStringMode::kWithNoExtraData);
}

// Returns whether one end closed the connection, as a process does when it ends.
bool IsNormalEnd(const Status& status) {
  return status.ok() || absl::IsCancelled(status) ||
         status.message() == "the peer closed the connection" ||
         status.message() == "the server is stopping";
}

// Returns whether the handler is at fault, not its caller.
bool IsFault(const Status& status) { return absl::IsInternal(status) || absl::IsUnknown(status); }

}  // namespace

// The series of one method at one side.
struct RpcMetrics::MethodMetrics {
  ~MethodMetrics() { in_flight.Add(-static_cast<double>(open)); }

  Counter& ForCode(absl::StatusCode code) {
    Counter*& counter = calls[static_cast<size_t>(code) % kStatusCodes];
    if (counter == nullptr) {
      LabelValues all = labels;
      all.push_back(absl::StatusCodeToString(code));
      counter = &registry.Get(kCallsTotal, all);
    }
    return *counter;
  }

  MetricRegistry& registry;
  const LabelValues labels;  // Side and method.
  Histogram& seconds = registry.Get(kCallSeconds, LatencyBuckets(), labels);
  Gauge& in_flight = registry.Get(kCallsInFlight, labels);
  Counter& request_bytes = registry.Get(kRequestBytesTotal, labels);
  Counter& response_bytes = registry.Get(kResponseBytesTotal, labels);
  std::array<Counter*, kStatusCodes> calls{};  // Indexed by code; null until the first call.
  int64_t open = 0;                            // Calls in flight of this observer.
};

RpcMetrics::RpcMetrics(MetricRegistry& registry, RpcSide side)
    : registry_(registry),
      side_(side == RpcSide::kServer ? "server" : "client"),
      sent_(registry.Get(kSentBytesTotal, {side_})),
      received_(registry.Get(kReceivedBytesTotal, {side_})) {
  for (size_t i = 0; i < closes_.size(); ++i) {
    const std::string_view reason = rpc::NameOf(static_cast<rpc::CloseReason>(i));
    closes_[i].counter = &registry.Get(kClosesTotal, {side_, std::string(reason)});
  }
  for (size_t i = 0; i < throttles_.size(); ++i) {
    const std::string_view reason = rpc::NameOf(static_cast<rpc::ThrottleReason>(i));
    throttles_[i] = &registry.Get(kThrottlesTotal, {side_, std::string(reason)});
  }
}

RpcMetrics::~RpcMetrics() = default;

void RpcMetrics::OnCallStart(const rpc::MethodId& method) {
  MethodMetrics& metrics = ForMethod(method);
  ++metrics.open;
  metrics.in_flight.Add(1);
}

void RpcMetrics::OnCallEnd(const rpc::CallReport& report) {
  MethodMetrics& metrics = ForMethod(report.method);
  --metrics.open;
  metrics.in_flight.Add(-1);
  metrics.seconds.Observe(report.duration);
  metrics.request_bytes.Add(report.request_bytes);
  metrics.response_bytes.Add(report.response_bytes);
  metrics.ForCode(report.status.code()).Add();
  if (Timeline::is_recording()) RecordCall(report);
  if (IsFault(report.status) && faults_.Admit(LogLimiter::Clock::now())) {
    spdlog::warn("{} {}, trace {:016x}: {}", side_, report.method.name, report.trace.trace_id,
                 Text(report.status));
  }
}

void RpcMetrics::RecordCall(const rpc::CallReport& report) const {
  const bool is_server = side_ == "server";
  Timeline::Add({.name = report.method.name,
                 .track = is_server ? "handled calls" : "calls",
                 .begin = report.end - report.duration,
                 .end = report.end,
                 .kind = is_server ? SpanKind::kHandling : SpanKind::kCall,
                 .trace_id = report.trace.trace_id,
                 .span_id = report.trace.span_id,
                 .waited = report.waited});
}

void RpcMetrics::OnConnect(std::string_view peer) {
  if (const auto suppressed = connect_log_.Admit(LogLimiter::Clock::now())) {
    spdlog::debug("{}: connected: suppressed_lines={}", peer, *suppressed);
  }
}

void RpcMetrics::OnDisconnect(std::string_view peer, const Status& reason) {
  if (const auto suppressed = disconnect_log_.Admit(LogLimiter::Clock::now())) {
    spdlog::log(IsNormalEnd(reason) ? spdlog::level::debug : spdlog::level::info,
                "{}: disconnected: suppressed_lines={}: {}", peer, *suppressed, Text(reason));
  }
}

void RpcMetrics::OnClose(std::string_view peer, rpc::CloseReason reason, const Status& status) {
  Closes& closes = closes_[static_cast<size_t>(reason)];
  closes.counter->Add();
  const std::optional<uint64_t> suppressed = closes.log.Admit(LogLimiter::Clock::now());
  if (!suppressed) return;
  spdlog::warn("{}: closed: reason={} suppressed_lines={}: {}", peer, rpc::NameOf(reason),
               *suppressed, Text(status));
}

RpcMetrics::MethodMetrics& RpcMetrics::ForMethod(const rpc::MethodId& method) {
  std::unique_ptr<MethodMetrics>& metrics = methods_[method.number];
  if (metrics == nullptr) {
    metrics =
        std::make_unique<MethodMetrics>(registry_, LabelValues{side_, std::string(method.name)});
  }
  return *metrics;
}

}  // namespace simurgh
