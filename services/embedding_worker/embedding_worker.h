#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/async.h"
#include "rpc/call.h"
#include "rpc/waiter.h"
#include "services/api/row_server.h"
#include "services/api/vector_wire.h"
#include "services/embedding_worker/argmax_wire.h"
#include "services/embedding_worker/batch_pooling.h"
#include "services/embedding_worker/forward_buffer.h"
#include "services/embedding_worker/row_exchange.h"
#include "services/embedding_worker/worker_metrics.h"
#include "services/runtime/log_limiter.h"
#include "simurgh/base/aligned_buffer.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/data/row_codec.h"
#include "simurgh/feature/batch_plan.h"
#include "simurgh/feature/bucket_map.h"
#include "simurgh/train/ports.h"

namespace simurgh {

// The tier between trainers and parameter servers: keeps submitted batches, pulls their distinct
// rows from all servers at once and pools them; un-pools gradients, sums them per row and pushes.
//
// Threads: call from `executor`; arithmetic runs on `compute`, so the executor's thread only moves
// bytes. Lifetime: outlives every call.
class EmbeddingWorker {
 public:
  // servers: by index, callable from `executor`. epoch: of this life of the worker.
  EmbeddingWorker(const ClusterConfig& config, uint64_t epoch, rpc::asio::any_io_executor compute,
                  std::vector<std::unique_ptr<RowServer>> servers, WorkerMetrics& metrics);

  // Returns memory for an incoming batch.
  std::shared_ptr<BufferedBatch> LeaseBatch() { return batches_.Lease(); }

  // Buffers a batch. While the forward buffer is full, calls wait in FIFO order, before decoding
  // and planning. A needed batch (ForwardBuffer) does not wait.
  // Errors: INVALID_ARGUMENT for a wrong number of features, lists of ids shared across tables, or
  // an unknown rank; RESOURCE_EXHAUSTED if the buffer is full until the deadline.
  [[nodiscard]] rpc::awaitable<StatusOr<BatchReference>> Submit(
      std::shared_ptr<const CompactBatch> batch, SubmitOptions terms,
      rpc::Clock::time_point deadline);

  // The same for a batch in `batch->encoded`. Errors also: of DecodeBatch.
  [[nodiscard]] rpc::awaitable<StatusOr<BatchReference>> SubmitEncoded(
      std::shared_ptr<BufferedBatch> batch, SubmitOptions terms, rpc::Clock::time_point deadline);

  // Size of the pull's answer in this form and precision.
  // Errors: NOT_FOUND for a stale reference; INVALID_ARGUMENT for a wrong number of ids.
  StatusOr<size_t> AnswerBytes(const BatchReference& reference, EmbeddingForm form,
                               VectorPrecision precision);

  // Writes the batch's pooled embeddings, or its rows, into the target.
  // Errors: NOT_FOUND as above; INVALID_ARGUMENT for a target of the wrong size; ABORTED for an
  // unreachable server; as Partition.
  [[nodiscard]] rpc::awaitable<StatusOr<PullAnswer>> Pull(BatchReference reference,
                                                          PullOptions terms, EmbeddingBuffer target,
                                                          rpc::CallOptions options);

  // If a feature's gradient holds NaN or infinity, or overflows in a row's sum, it is counted and
  // replaced by zero. learning_rates: by table.
  // Errors: as Pull; INVALID_ARGUMENT unless there is one finite rate >= 0 for each table, or for
  // argmax that do not fit the batch.
  [[nodiscard]] rpc::awaitable<Status> Push(BatchReference reference, StepId position,
                                            std::vector<float> learning_rates,
                                            GradientBuffer gradients, rpc::CallOptions options);

  // Drops expired batches; call periodically.
  void ExpireBatches();

  // Bytes of a sample's embeddings or gradients in this precision.
  size_t row_bytes(VectorPrecision precision) const { return pooling_.row_bytes(precision); }
  // Upper bound on a batch's argmax bytes.
  size_t max_argmax_bytes() const { return argmax_wire_.max_bytes(); }

 private:
  class WaitTicket;

  // A submission that waits for room.
  struct Waiting {
    SubmitOptions terms;
    size_t bytes = 0;
    std::optional<rpc::Waiter> waiter;  // Set once it sleeps.
  };

  // Decodes if necessary, validates and plans; on a compute thread.
  Status DecodeAndPlan(BufferedBatch& batch) const;
  [[nodiscard]] rpc::awaitable<StatusOr<ForwardBuffer::Place>> ReserveSpace(
      SubmitOptions terms, size_t bytes, rpc::Clock::time_point deadline);
  // Whether a submission can proceed.
  bool CanAdmit(const Waiting& waiting) const;
  // Wakes submissions that can proceed and updates the metrics after the forward buffer changed.
  void NoteBuffer();

  StatusOr<std::shared_ptr<BufferedBatch>> Find(const BatchReference& reference);

  // Pools or copies a pull's rows into the target, with argmax if requested; on a compute thread.
  PooledArgmax PoolRows(const BufferedBatch& batch, const AlignedBuffer& rows,
                        const EmbeddingBuffer& target, bool tell_argmax);
  // Un-pools gradients as BatchPooling::Unpool; on a compute thread.
  // Errors: INVALID_ARGUMENT for argmax that do not fit the batch.
  StatusOr<std::vector<size_t>> UnpoolRows(const BufferedBatch& batch,
                                           const GradientBuffer& gradients,
                                           const AlignedBuffer& row_gradients);

  const RowCodec& RowCodecOf(VectorPrecision precision) const {
    return row_codecs_[static_cast<size_t>(precision)];
  }
  StatusOr<size_t> AnswerBytes(const BufferedBatch& batch, EmbeddingForm form,
                               VectorPrecision precision) const;
  Status CheckSize(size_t bytes, size_t expected) const;
  // Removes and counts a finished batch. Returns false if another call has removed it.
  bool Finish(const BatchReference& reference, const BufferedBatch& batch);
  // Counts and logs features with dropped gradients.
  void NoteDropped(const std::vector<size_t>& features, const StepId& position);

  const BatchLayout layout_;
  const BucketMap map_;
  const BatchPooling pooling_;
  std::vector<RowCodec> row_codecs_;  // By precision.
  const ArgmaxWire argmax_wire_;
  const uint64_t epoch_;
  const size_t ranks_;
  const rpc::asio::any_io_executor compute_;
  WorkerMetrics& metrics_;
  ForwardBuffer buffer_;
  std::list<Waiting> waiting_;  // The first to come at the front.
  BatchPool batches_;
  RowExchange rows_;
  std::vector<std::string> feature_names_;
  LogLimiter dropped_log_;
};

}  // namespace simurgh
