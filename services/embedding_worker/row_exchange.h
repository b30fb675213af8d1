#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "config/cluster_config.h"
#include "config/table_config.h"
#include "embedding/batch_calls.h"
#include "embedding/batch_plan.h"
#include "embedding/batch_pool.h"
#include "embedding/rank_row_cache.h"
#include "embedding/row_wire.h"
#include "rpc/async.h"
#include "rpc/call.h"
#include "services/api/row_rpc.h"
#include "services/embedding_worker/worker_metrics.h"
#include "table/partition.h"

namespace simurgh {

// The row caches of all ranks of the latest run.
//
// Threads: one owner.
class RowCacheRanks {
 public:
  RowCacheRanks(size_t capacity_bytes, std::vector<uint32_t> table_dims,
                rpc::asio::any_io_executor compute, RowCacheMetrics& metrics);

  // A rank's rows, and the strand on which they are used.
  struct Rank {
    rpc::asio::any_io_executor thread;
    RankRowCache rows;
  };

  // Returns the cache of step_id.rank, null without one. Ranks share the capacity equally. Another
  // run, number of ranks or age clears all caches.
  std::shared_ptr<Rank> Of(const StepId& step_id, uint32_t max_age_steps);

 private:
  const size_t capacity_bytes_;
  const std::vector<uint32_t> table_dims_;
  const rpc::asio::any_io_executor compute_;
  RowCacheMetrics& metrics_;
  uint64_t run_ = 0;
  uint32_t ranks_count_ = 0;
  uint32_t max_age_steps_ = 0;
  std::map<uint32_t, std::shared_ptr<Rank>> ranks_;
};

// Pulls a batch's distinct rows from all servers concurrently and pushes their gradients, each
// direction in its precision. A pull may use cached rows of the rank, up to row_age_steps old.
//
// Errors: the first server's error. UNAVAILABLE becomes ABORTED, since the batch is still buffered:
// the trainer repeats the call, not the submit.
// Threads: one executor; encoding and decoding run on `compute`.
class RowExchange {
 public:
  RowExchange(const ClusterConfig& config, rpc::asio::any_io_executor compute,
              std::vector<std::unique_ptr<RowPort>> servers, WorkerMetrics& metrics);

  struct Rows {
    std::shared_ptr<AlignedBuffer> floats;  // Layout: the batch's plan.
    uint32_t age_steps = 0;                 // Age of the oldest row; 0: none is cached.
  };
  [[nodiscard]] rpc::awaitable<StatusOr<Rows>> Pull(std::shared_ptr<const BufferedBatch> batch,
                                                    PullOptions options,
                                                    rpc::CallOptions call_options);

  // gradients: floats of the batch's plan. learning_rates: one per table.
  [[nodiscard]] rpc::awaitable<Status> Push(std::shared_ptr<const BufferedBatch> batch,
                                            StepId step_id, std::vector<float> learning_rates,
                                            std::shared_ptr<AlignedBuffer> gradients,
                                            rpc::CallOptions options);

  // Tells servers with cold rows the ids of a batch that was submitted: RowPort::ReadAhead().
  // Errors are left to the pull.
  [[nodiscard]] rpc::awaitable<void> ReadAhead(std::shared_ptr<const BufferedBatch> batch,
                                               rpc::CallOptions options);

  // Passes the end of a rank on to all servers.
  [[nodiscard]] rpc::awaitable<Status> EndRun(StepId step_id, rpc::CallOptions options);

  // Sets call.server. Returns the sum over the servers; done when all are.
  [[nodiscard]] rpc::awaitable<StatusOr<SaveProgress>> SaveRows(SaveRowsCall call,
                                                                rpc::CallOptions options);
  [[nodiscard]] rpc::awaitable<StatusOr<SaveProgress>> RestoreRows(RestoreRowsCall call,
                                                                   rpc::CallOptions options);

  // Memory for a batch.
  std::shared_ptr<AlignedBuffer> Lease(size_t bytes) { return memory_.Lease(bytes); }

 private:
  struct PullState;
  struct PushState;

  // Makes the call to all servers concurrently, and sums the answers.
  template <typename Call>
  [[nodiscard]] rpc::awaitable<StatusOr<SaveProgress>> SumProgress(
      Call call, rpc::CallOptions options,
      rpc::awaitable<StatusOr<SaveProgress>> (RowPort::*method)(Call, rpc::CallOptions));

  // Runs call(server) for all servers concurrently. seconds, stage: as for StageTimer.
  template <typename Call>
  [[nodiscard]] rpc::awaitable<Status> OnServers(Histogram& seconds, const char* stage,
                                                 const rpc::Trace& trace, const Call& call);

  // Sets the request and copies cached rows.
  [[nodiscard]] rpc::awaitable<void> Prepare(std::shared_ptr<PullState> state);
  [[nodiscard]] rpc::awaitable<Status> PullFrom(size_t server, std::shared_ptr<PullState> state,
                                                rpc::CallOptions options);
  [[nodiscard]] rpc::awaitable<Status> PushTo(size_t server, std::shared_ptr<PushState> state,
                                              rpc::CallOptions options);

  const rpc::asio::any_io_executor compute_;
  const bool has_cold_rows_;
  const std::vector<std::unique_ptr<RowPort>> servers_;
  const RowWire row_wire_;
  const RowWire gradient_wire_;
  WorkerMetrics& metrics_;
  RowCacheRanks row_cache_;
  BufferPool memory_;
};

}  // namespace simurgh
