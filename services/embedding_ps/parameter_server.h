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
#include "services/embedding_ps/fair_queue.h"
#include "services/embedding_ps/server_metrics.h"
#include "services/embedding_ps/step_barrier.h"
#include "services/runtime/io_thread.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// One server's partitions, each with the thread that owns it; a request fans out over them and is
// answered when all have done their part. At each partition the clients' requests take turns, a
// piece of one after a piece of another. A push that a partition has begun is brought to its end,
// whatever becomes of its caller.
//
// Threads: call from one executor; partitions are touched on their own threads only.
// Lifetime: outlive every call.
class ParameterServer : public RowServer {
 public:
  // How much of a request a partition does before it turns to the next client.
  static constexpr size_t kIdsPerTurn = 4'096;

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

  // Whether the groups name tables, dims and partitions that are there; else no row has changed.
  // Errors: INVALID_ARGUMENT.
  Status Check(std::span<const RowGroup> groups) const;

  // What ends the server when a table must not lose rows and has no room: called once, on a
  // partition's thread. Set it before the first call.
  using FatalFunction = std::function<void(const Status& reason)>;
  void SetFatal(FatalFunction fatal) { fatal_ = std::move(fatal); }

  // Ends pushes that wait for those of other ranks, now and later. Before a server stops.
  void StopHolding();

  // Of each table: the sum of its partitions' Table::ContentDigest, to be added over servers, too.
  // For a server that has drained. Cost: reads all rows.
  std::vector<uint64_t> ContentDigests();

  uint32_t partition_count() const { return static_cast<uint32_t>(shards_.size()); }

  // For tests, while no call is under way.
  const Partition& partition(uint32_t index) const { return *shards_[index]->partition; }

 private:
  struct Shard {
    Shard(std::unique_ptr<Partition> rows, const std::string& name)
        : partition(std::move(rows)), thread(name) {}

    // Adds to the turns; from any thread.
    void Add(uint64_t client, std::unique_ptr<FairQueue::Task> task);
    // A push that goes on with those of the other ranks; from any thread.
    void Hold(HeldPush push);
    // The pushes of a step, or one that is a repetition.
    void Begin(std::vector<HeldPush> together);
    // Has the turns run, on the thread, as long as there are any.
    void Run();

    std::unique_ptr<Partition> partition;
    FairQueue turns;
    StepBarrier gate;
    bool running = false;  // Run() is going to be called.
    IoThread thread;
  };

  ParameterServer(ServerMetrics& metrics, bool reproducible);

  // Says once that a reproducible run has lost its guarantee.
  void WarnOfEviction();

  // Whether the call holds what its groups describe.
  Status Check(const PullRowsCall& call) const;
  Status Check(const PushRowsCall& call) const;
  // Ends a push that waits for those of other ranks.
  void GiveUp(const StepId& position);

  ServerMetrics& metrics_;
  const bool reproducible_;
  bool warned_ = false;
  std::vector<uint32_t> table_dims_;  // By table.
  FatalFunction fatal_;
  std::atomic<bool> failed_ = false;
  std::unique_ptr<MemoryBudget> budget_;  // Null: no limit.
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace simurgh
