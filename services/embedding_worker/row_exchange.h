#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rpc/async.h"
#include "rpc/call.h"
#include "services/api/row_rpc.h"
#include "services/embedding_worker/rank_row_cache.h"
#include "services/embedding_worker/row_wire.h"
#include "services/embedding_worker/worker_metrics.h"
#include "simurgh/base/aligned_buffer.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/feature/batch_pool.h"
#include "simurgh/train/ports.h"

namespace simurgh {

// Pulls a batch's distinct rows from all servers concurrently and pushes their gradients, each
// direction in its precision. A pull may use cached rows of the rank, up to row_age_steps old.
//
// Errors: the first server's error. UNAVAILABLE becomes ABORTED, since the batch is still buffered:
// the trainer repeats the call, not the submit.
// Threads: one executor; encoding and decoding run on `compute`.
class RowExchange {
 public:
  RowExchange(const ClusterConfig& config, rpc::asio::any_io_executor compute,
              std::vector<std::unique_ptr<RowServer>> servers, WorkerMetrics& metrics);

  struct Rows {
    std::shared_ptr<AlignedBuffer> floats;  // Layout: the batch's plan.
    uint32_t age_steps = 0;                 // Age of the oldest row; 0: none is cached.
  };
  [[nodiscard]] rpc::awaitable<StatusOr<Rows>> Pull(std::shared_ptr<const BufferedBatch> batch,
                                                    PullOptions options,
                                                    rpc::CallOptions call_options);

  // gradients: floats of the batch's plan. learning_rates: by table.
  [[nodiscard]] rpc::awaitable<Status> Push(std::shared_ptr<const BufferedBatch> batch,
                                            StepId step_id, std::vector<float> learning_rates,
                                            std::shared_ptr<AlignedBuffer> gradients,
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
      rpc::awaitable<StatusOr<SaveProgress>> (RowServer::*method)(Call, rpc::CallOptions));

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
  const std::vector<std::unique_ptr<RowServer>> servers_;
  const RowWire row_wire_;
  const RowWire gradient_wire_;
  WorkerMetrics& metrics_;
  RowCacheRanks row_cache_;
  BufferPool memory_;
};

}  // namespace simurgh
