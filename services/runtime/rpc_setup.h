#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "base/status.h"
#include "config/service_config.h"
#include "rpc/call.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "services/runtime/log_limiter.h"
#include "telemetry/metrics.h"

namespace simurgh {

// The options of the configuration's section `rpc`.
struct RpcOptions {
  rpc::ClientOptions client;
  rpc::ServerOptions server;
};

// Loads the files that the section `rpc` names.
// Errors: INVALID_ARGUMENT for unusable files of `rpc.tls` and `cluster.token_file`, naming key,
// file and remedy.
StatusOr<RpcOptions> MakeRpcOptions(const RpcConfig& config);

// Returns the options for a client of instances[index], whose daemons have this role. The client
// refuses a server of another role or index with INVALID_ARGUMENT, naming the key and the
// addresses.
rpc::ClientOptions OptionsFor(rpc::ClientOptions options, const std::string& role,
                              const std::vector<InstanceConfig>& instances, size_t index);

// The end of the connections that an observer watches: the label `side`.
enum class RpcSide { kServer, kClient };

// Writes events of the RPC library into metrics (simurgh_rpc_*), the log and the timeline. The
// first call of a method creates its metrics, the first result with a code creates the counter;
// further calls allocate nothing.
//
// Threads: one executor's, as rpc::Observer. Observers of several executors count into the same
// series of a registry. Lifetime: the registry outlives this.
class RpcMetrics : public rpc::Observer {
 public:
  RpcMetrics(MetricRegistry& registry, RpcSide side);
  // Ends the calls in flight.
  ~RpcMetrics() override;

  void OnCallStart(const rpc::MethodId& method) override;
  void OnCallEnd(const rpc::CallReport& report) override;
  void OnBytesSent(uint64_t bytes) override { sent_.Add(bytes); }
  void OnBytesReceived(uint64_t bytes) override { received_.Add(bytes); }
  void OnConnect(std::string_view peer) override;
  void OnDisconnect(std::string_view peer, const Status& reason) override;
  void OnThrottle(std::string_view peer, rpc::ThrottleReason reason) override {
    throttles_[static_cast<size_t>(reason)]->Add();
  }
  void OnClose(std::string_view peer, rpc::CloseReason reason, const Status& status) override;

 private:
  static constexpr uint32_t kLines = 10;  // Burst of log lines per event and reason.
  static constexpr std::chrono::seconds kLineInterval{1};

  struct MethodMetrics;
  struct Closes {
    Counter* counter = nullptr;
    LogLimiter log{kLines, kLineInterval};
  };

  void RecordCall(const rpc::CallReport& report) const;
  MethodMetrics& ForMethod(const rpc::MethodId& method);

  MetricRegistry& registry_;
  const std::string side_;
  Counter& sent_;
  Counter& received_;
  std::array<Closes, rpc::kCloseReasons> closes_;  // Indexed by reason.
  std::array<Counter*, rpc::kThrottleReasons> throttles_;
  LogLimiter faults_{kLines, kLineInterval};
  LogLimiter connect_log_{kLines, kLineInterval};
  LogLimiter disconnect_log_{kLines, kLineInterval};
  absl::flat_hash_map<uint32_t, std::unique_ptr<MethodMetrics>> methods_;  // Keyed by number.
};

}  // namespace simurgh
