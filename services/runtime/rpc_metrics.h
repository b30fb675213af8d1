#pragma once

#include <array>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

#include "rpc/observer.h"
#include "services/runtime/log_limiter.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Which end of its connections an observer watches: the label `side`.
enum class RpcSide { kServer, kClient };

// Writes what the RPC library reports into metrics (simurgh_rpc_*) and the log.
//
// Threads: one executor's, as rpc::Observer; give each executor one of its own, over a common
// registry, where they count into the same series. Lifetime: within the registry's.
class RpcMetrics : public rpc::Observer {
 public:
  RpcMetrics(MetricRegistry& registry, RpcSide side);

  void OnCallEnd(std::string_view method, absl::StatusCode code,
                 std::chrono::nanoseconds duration) override;
  void OnBytesSent(uint64_t bytes) override { sent_.Add(bytes); }
  void OnBytesReceived(uint64_t bytes) override { received_.Add(bytes); }
  void OnConnect(std::string_view peer) override;
  void OnDisconnect(std::string_view peer, const Status& reason) override;
  void OnCut(std::string_view peer, rpc::CutReason reason, const Status& status) override;

 private:
  static constexpr uint32_t kCutLines = 10;  // In the log, of one reason at once.
  static constexpr std::chrono::seconds kCutLineInterval{1};

  struct MethodMetrics {
    Histogram* duration;
    absl::flat_hash_map<absl::StatusCode, Counter*> calls;
  };

  MethodMetrics& ForMethod(std::string_view method);
  Counter& ForCode(MethodMetrics& metrics, std::string_view method, absl::StatusCode code);

  MetricRegistry& registry_;
  const std::string side_;
  Counter& sent_;
  Counter& received_;
  Counter& connects_;
  Counter& disconnects_;
  struct Cuts {
    Counter* counter = nullptr;
    LogLimiter log{kCutLines, kCutLineInterval};
  };
  std::array<Cuts, rpc::kCutReasons> cuts_;  // By reason.
  absl::flat_hash_map<std::string, MethodMetrics> methods_;
};

}  // namespace simurgh
