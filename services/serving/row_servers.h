#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "config/cluster_config.h"
#include "config/serving_config.h"
#include "predict/remote_rows.h"
#include "rpc/client.h"
#include "services/api/served_rows.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/rpc_setup.h"
#include "telemetry/metrics.h"

namespace simurgh {

// The processes `row-server` of serving.servers, over RPC.
//
// A server that did not answer gets no calls for rows until it answers Use(), so that requests fail
// at once.
class RowServers final : public RemoteRows {
 public:
  // Lifetime: the registry outlives this. Errors: see MakeRpcOptions().
  static StatusOr<std::shared_ptr<RowServers>> Create(const ServingConfig& config,
                                                      MetricRegistry& registry);
  ~RowServers() override;

  uint32_t servers() const override { return static_cast<uint32_t>(servers_.size()); }
  StatusOr<std::vector<VersionName>> Use(std::span<const VersionName> versions) override;
  std::string WhoLacks(const VersionName& version) override;
  Status Read(uint64_t checksum, std::span<const RowRead> reads,
              std::span<RowAnswer> answers) override;
  void OnCache(uint64_t hits, uint64_t misses) override {
    hits_.Add(hits);
    misses_.Add(misses);
  }

 private:
  struct Server {
    std::string name;  // Configuration key and address.
    std::unique_ptr<rpc::Client> client;
    Counter* failures = nullptr;
  };

  RowServers(const ServingConfig& config, const ClusterConfig& cluster, MetricRegistry& registry);

  // Runs a call to each server on the thread, concurrently, and waits. Returns the first error.
  Status OnServers(absl::FunctionRef<rpc::awaitable<Status>(size_t server)> call);
  [[nodiscard]] rpc::awaitable<Status> UseOn(size_t server, std::span<const VersionName> versions,
                                             rpc::Clock::time_point deadline);
  [[nodiscard]] rpc::awaitable<Status> ReadFrom(size_t server, uint64_t checksum,
                                                const RowRead& read, RowAnswer& answer,
                                                rpc::CallOptions options);
  // Checks that the answer is one of a server of these versions.
  Status Check(size_t server, std::span<const VersionName> versions,
               const api::ServerVersions& answer) const;

  const ClusterConfig cluster_;
  const uint64_t user_;  // A random number.
  const std::chrono::milliseconds read_timeout_;
  const std::chrono::milliseconds patience_;
  Counter& hits_;
  Counter& misses_;
  Mutex mutex_;
  std::vector<api::ServerVersions> answers_ ABSL_GUARDED_BY(mutex_);  // Answers to the last Use().
  std::vector<bool> is_down_ ABSL_GUARDED_BY(mutex_);
  RpcMetrics observer_;
  std::vector<Server> servers_;
  IoThread thread_;  // Destroyed first, since its calls use the other members.
};

}  // namespace simurgh
