#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"

#include "rpc/observer.h"
#include "services/runtime/log_limiter.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Which end of its connections an observer watches: the label `side`.
enum class RpcSide { kServer, kClient };

// Writes what the RPC library reports into metrics (simurgh_rpc_*) and the log. The first call of a
// method makes its metrics, the first with a code that counter; further calls allocate nothing.
//
// Threads: one executor's, as rpc::Observer; give each executor one of its own, over a common
// registry, where they count into the same series. Lifetime: within the registry's.
class RpcMetrics : public rpc::Observer {
 public:
  RpcMetrics(MetricRegistry& registry, RpcSide side);
  // Calls that were left behind are not in flight any more.
  ~RpcMetrics() override;

  void OnCallStart(const rpc::MethodId& method) override;
  void OnCallEnd(const rpc::CallReport& report) override;
  void OnBytesSent(uint64_t bytes) override { sent_.Add(bytes); }
  void OnBytesReceived(uint64_t bytes) override { received_.Add(bytes); }
  void OnPayloadCopied(uint64_t bytes) override { copied_.Add(bytes); }
  void OnSmallPayloadCopied(uint64_t bytes) override { small_copied_.Add(bytes); }
  void OnConnect(std::string_view peer) override;
  void OnDisconnect(std::string_view peer, const Status& reason) override;
  void OnThrottle(std::string_view peer, rpc::ThrottleReason reason) override {
    throttles_[static_cast<size_t>(reason)]->Add();
  }
  void OnClose(std::string_view peer, rpc::CloseReason reason, const Status& status) override;

 private:
  static constexpr uint32_t kLines = 10;  // In the log, of one reason at once.
  static constexpr std::chrono::seconds kLineInterval{1};

  struct MethodMetrics;
  struct Closes {
    Counter* counter = nullptr;
    LogLimiter log{kLines, kLineInterval};
  };

  MethodMetrics& ForMethod(const rpc::MethodId& method);

  MetricRegistry& registry_;
  const std::string side_;
  Counter& sent_;
  Counter& received_;
  Counter& copied_;
  Counter& small_copied_;
  Counter& connects_;
  Counter& disconnects_;
  std::array<Closes, rpc::kCloseReasons> closes_;  // By reason.
  std::array<Counter*, rpc::kThrottleReasons> throttles_;
  LogLimiter faults_{kLines, kLineInterval};
  absl::flat_hash_map<uint32_t, std::unique_ptr<MethodMetrics>> methods_;  // By number.
};

}  // namespace simurgh
