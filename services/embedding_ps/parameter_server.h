#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "config/cluster_config.h"
#include "rpc/async.h"
#include "services/api/row_rpc.h"
#include "services/embedding_ps/fair_queue.h"
#include "services/embedding_ps/row_loader.h"
#include "services/embedding_ps/row_saver.h"
#include "services/embedding_ps/row_task.h"
#include "services/embedding_ps/server_environment.h"
#include "services/embedding_ps/server_metrics.h"
#include "services/embedding_ps/step_barrier.h"
#include "services/runtime/log_limiter.h"
#include "table/partition.h"

namespace simurgh {

// The part of a memory budget for requests and answers, see rpc::ServerOptions. 0: no budget.
uint64_t PeerBytes(uint64_t memory_budget);

// The part of embedding_ps.memory_budget that tables leave free. Requires a budget.
uint64_t KeptFree(const ClusterConfig& config);

// The most that a table needs to note a row that changes between checkpoints: see
// src/table/README.md.
inline constexpr uint64_t kBytesPerChangedRow = 9;

// The tables with a partition's share of their capacity.
std::vector<TableConfig> SharesOf(const ClusterConfig& config);

// A server's partitions, each with the thread that owns it. A request fans out over the partitions
// and completes when all have processed their share. Each partition interleaves the requests of its
// clients in pieces. A partition completes a push that it has begun even if the caller has died.
//
// Threads: call from one executor.
// Lifetime: must outlive every call.
class ParameterServer : public RowPort {
 public:
  // Largest piece of a request, in ids.
  static constexpr size_t kIdsPerTurn = 4'096;

  // Checks the tables' sizes. Errors: INVALID_ARGUMENT; of Table::Validate.
  static Status CheckConfig(const ClusterConfig& config);

  // Reserves the partitions' memory and starts their threads.
  // Errors: of CheckConfig() and Partition::Create(); INVALID_ARGUMENT for a memory budget without
  // space for rows.
  // server: its index among the instances.
  static StatusOr<std::unique_ptr<ParameterServer>> Create(const ClusterConfig& config,
                                                           ServerMetrics& metrics,
                                                           uint32_t server = 0,
                                                           ServerEnvironment environment = {});
  ~ParameterServer() override;

  [[nodiscard]] rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call,
                                                          rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call,
                                                          rpc::CallOptions options) override;

  // The same with the rows that Parse() has made of the call's groups, which are not read again.
  // Requires ids and bytes of their lengths, and for a push CheckPushOrder().
  [[nodiscard]] rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call, api::ParsedRows rows,
                                                          rpc::CallOptions options);
  [[nodiscard]] rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call, api::ParsedRows rows,
                                                          rpc::CallOptions options);

  // Passes the ids on to the partitions. owner: keeps them alive.
  void ReadAhead(const api::ParsedRows& rows, std::span<const uint64_t> ids,
                 std::shared_ptr<const void> owner);
  [[nodiscard]] rpc::awaitable<Status> ReadAhead(ReadRowsAheadCall call,
                                                 rpc::CallOptions options) override;

  [[nodiscard]] rpc::awaitable<StatusOr<SaveProgress>> SaveRows(SaveRowsCall call,
                                                                rpc::CallOptions options) override;

  [[nodiscard]] rpc::awaitable<StatusOr<SaveProgress>> RestoreRows(
      RestoreRowsCall call, rpc::CallOptions options) override;

  // checkpoint.on_server_loss: partial: loads the rows of the last checkpoint of a run whose rows
  // this server has lost. The run's other servers go on. loss: what the run gets otherwise.
  // Errors: ABORTED until the rows are loaded; `loss` with rollback, or if the run has no
  // checkpoint; FAILED_PRECONDITION for an older start of the training; of LoadRows.
  Status RestoreLost(uint64_t run, const Status& loss);

  // Puts the server's rows of a checkpoint into its partitions: see LoadRows() of row_loader.h.
  // server: this server's index. Requires that the server has had no call.
  // Threads: any but the partitions'. Blocks.
  Status LoadRows(const Checkpoint& checkpoint, uint32_t server, LoadProgress progress);

  // The argument of ParsedRows::Parse().
  const api::RowShape& shape() const { return shape_; }

  // Called once, on a partition's thread, when a table with when_full: stop is full. Set it before
  // the first call.
  using FatalFunction = std::function<void(const Status& reason)>;
  void SetFatal(FatalFunction fatal) { fatal_ = std::move(fatal); }

  // Fails pushes that wait for other ranks and pulls that wait for pushes, now and later. Call
  // before the server drains.
  void CloseBarriers();

  // Returns Table::ContentDigest() of each table, summed over the partitions. Sums over servers add
  // up as well. Requires that no call is in progress. Cost: reads all rows.
  std::vector<uint64_t> ContentDigests();

  // Returns a partition, for tests. Requires that no call is in progress.
  const Partition& partition(uint32_t index) const { return *shards_[index]->partition; }

 private:
  struct Shard {
    Shard(std::unique_ptr<Partition> rows, std::unique_ptr<PartitionThread> owner,
          ServerMetrics& counts)
        : partition(std::move(rows)), metrics(counts), thread(std::move(owner)) {
      partition->SetWake([this] { rpc::asio::post(thread->executor(), [this] { Resume(); }); });
    }
    // The wake calls end before the thread.
    ~Shard() { partition->StopReads(); }

    // Queues a task. Threads: any.
    void Add(uint64_t client, std::unique_ptr<FairQueue::Task> task);
    // Adds a push to the barrier. Threads: any.
    void Hold(HeldPush push);
    // Queues released pushes: those of a step, or one repetition.
    void Begin(std::vector<HeldPush> pushes);
    // Processes one piece, and posts itself while there are more.
    void Run();
    // Requests that wait try again. Threads: the shard's.
    void Resume();

    std::unique_ptr<Partition> partition;
    ServerMetrics& metrics;
    FairQueue queue;
    StepBarrier barrier;
    bool closed = false;   // Nothing waits for pushes any more.
    bool running = false;  // Run() is posted. False: all requests wait, or there is none.
    std::unique_ptr<PartitionThread> thread;
  };

  ParameterServer(const ClusterConfig& config, ServerMetrics& metrics, uint32_t server,
                  ServerEnvironment environment);

  // Drops all rows. Threads and blocking: as LoadRows.
  Status Clear(uint64_t run);
  // Loads a checkpoint's rows, or none, and begins the run. Threads and blocking: as LoadRows.
  Status Restore(const RestoreRowsCall& call, LoadProgress progress);

  // The work of RestoreLost().
  Status LoadLost(uint64_t run, const Status& loss, LoadProgress progress);
  // Loads rows into empty tables, and reports them in the metrics.
  Status LoadAndCount(const Checkpoint& checkpoint, uint32_t server, LoadProgress progress);

  PartitionThreads Threads();

  // Requests that wait try again, on all shards.
  void ResumeAll();

  void LogNotFinite(const StepId& step_id, const PushReport& report);

  const ServerEnvironment environment_;
  ServerMetrics& metrics_;
  const std::vector<TableConfig> tables_;  // Each with a partition's share of its capacity.
  const api::RowShape shape_;
  const BucketMap map_;
  const uint32_t server_;
  const CheckpointConfig checkpoint_;
  const uint32_t ranks_;
  std::atomic<uint64_t> rows_of_ = 0;  // The last run that created or loaded rows.
  bool warns_of_eviction_;  // True until the first one, in reproducible and synchronous runs.
  LogLimiter not_finite_log_{/*lines=*/10, std::chrono::seconds(10)};
  FatalFunction fatal_;
  std::atomic<bool> failed_ = false;
  std::unique_ptr<MemoryBudget> budget_;  // Null: no limit.
  const bool has_cold_rows_;
  CopyMemory copy_memory_;
  std::vector<std::unique_ptr<Shard>> shards_;
  PartitionThreads threads_;
  // Declared after shards_, which both use.
  std::unique_ptr<RowSaver> saver_;
  RowTask restoring_;
};

}  // namespace simurgh
