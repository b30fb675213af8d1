#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/async.h"
#include "services/api/row_server.h"
#include "services/embedding_ps/server_metrics.h"
#include "services/runtime/io_thread.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// One server's partitions, each with the thread that owns it; a request fans out over them and is
// answered when all have done their part.
//
// Threads: call from one executor; partitions are touched on their own threads only.
// Lifetime: outlive every call.
class ParameterServer : public RowServer {
 public:
  // Reserves the partitions' memory and starts their threads.
  // index: of the server among the instances.
  // Errors: RESOURCE_EXHAUSTED when address space cannot be reserved; INVALID_ARGUMENT for a NUMA
  // node that is not there; others when a file of arena_directory cannot be used.
  static StatusOr<std::unique_ptr<ParameterServer>> Create(const ClusterConfig& config,
                                                           size_t index, ServerMetrics& metrics);
  ~ParameterServer() override;

  [[nodiscard]] rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call,
                                                          rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call,
                                                          rpc::CallOptions options) override;

  // What ends the server when a table must not lose rows and has no room: called once, on a
  // partition's thread. Set it before the first call.
  using FatalFunction = std::function<void(const Status& reason)>;
  void SetFatal(FatalFunction fatal) { fatal_ = std::move(fatal); }

  uint32_t partition_count() const { return static_cast<uint32_t>(shards_.size()); }

  // For tests, while no call is under way.
  const Partition& partition(uint32_t index) const { return *shards_[index]->partition; }

 private:
  struct Shard {
    Shard(std::unique_ptr<Partition> rows, const std::string& name)
        : partition(std::move(rows)), thread(name) {}

    std::unique_ptr<Partition> partition;
    IoThread thread;
  };

  ParameterServer(ServerMetrics& metrics, bool reproducible);

  // Says once that a reproducible run has lost its guarantee.
  void WarnOfEviction();

  // Runs task(p) for the partitions in `which`, each on its own thread, all at once.
  template <typename Task>
  [[nodiscard]] rpc::awaitable<Status> OnPartitions(std::vector<size_t> which, const Task& task);

  ServerMetrics& metrics_;
  const bool reproducible_;
  bool warned_ = false;
  FatalFunction fatal_;
  std::atomic<bool> failed_ = false;
  std::unique_ptr<MemoryBudget> budget_;  // Null: no limit.
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace simurgh
