#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "config/cluster_config.h"
#include "embedding/batch_calls.h"
#include "embedding/batch_plan.h"
#include "embedding/batch_pooling.h"
#include "embedding/bucket_map.h"
#include "embedding/forward_buffer.h"
#include "embedding/row_codec.h"
#include "rpc/async.h"
#include "rpc/call.h"
#include "services/api/row_rpc.h"
#include "services/embedding_worker/row_exchange.h"
#include "services/embedding_worker/worker_metrics.h"
#include "services/runtime/log_limiter.h"

namespace simurgh {

// The tier between trainers and parameter servers. Keeps submitted batches, pulls their distinct
// rows from all servers concurrently and pools them; sums gradients per row and pushes them.
//
// Threads: call from one executor; arithmetic runs on `compute`. Lifetime: outlive every call.
class EmbeddingWorker {
 public:
  // servers: in the order of their indexes.
  EmbeddingWorker(const ClusterConfig& config, uint64_t incarnation,
                  rpc::asio::any_io_executor compute, std::vector<std::unique_ptr<RowPort>> servers,
                  WorkerMetrics& metrics);

  std::shared_ptr<BufferedBatch> LeaseBatch() { return batches_.Lease(); }

  // Buffers a batch. While the forward buffer is full, calls wait in order, before decoding. A
  // batch exempt from the limit (ForwardBuffer) does not wait.
  // Errors: INVALID_ARGUMENT for a wrong number of features, lists of ids shared across tables or
  // an unknown rank; RESOURCE_EXHAUSTED if the buffer is still full at the deadline.
  [[nodiscard]] rpc::awaitable<StatusOr<BatchReference>> Submit(
      std::shared_ptr<const CompactBatch> batch, SubmitOptions options,
      rpc::CallOptions call_options);

  // The same for `batch->encoded`. Errors also: of DecodeBatch.
  [[nodiscard]] rpc::awaitable<StatusOr<BatchReference>> SubmitEncoded(
      std::shared_ptr<BufferedBatch> batch, SubmitOptions options, rpc::CallOptions call_options);

  // Bytes of a batch's embeddings or gradients.
  // Errors: NOT_FOUND for an expired reference.
  StatusOr<size_t> VectorBytes(const BatchReference& reference, EmbeddingForm form,
                               VectorPrecision precision);

  // Writes the batch's pooled embeddings, or its rows, to `embeddings`.
  // Errors: NOT_FOUND as above; INVALID_ARGUMENT for a buffer of a wrong size; ABORTED if a server
  // is unreachable; of Partition.
  [[nodiscard]] rpc::awaitable<StatusOr<PullAnswer>> Pull(BatchReference reference,
                                                          PullOptions options,
                                                          EmbeddingBuffer embeddings,
                                                          rpc::CallOptions call_options);

  // A feature whose gradient holds NaN or infinity, or overflows in the sum of a row, is dropped
  // and counted. learning_rates: one per table. Errors: as Pull; INVALID_ARGUMENT for a wrong
  // number of rates, a rate that is not finite and at least 0, or argmax that do not fit the batch.
  [[nodiscard]] rpc::awaitable<Status> Push(BatchReference reference, StepId step_id,
                                            std::vector<float> learning_rates,
                                            GradientBuffer gradients, rpc::CallOptions options);

  // The exchange with the servers, for calls that only they answer.
  RowExchange& rows() { return rows_; }

  // Drops expired batches; call periodically.
  void ExpireBatches();

  // Bytes of one sample's embeddings or gradients.
  size_t row_bytes(VectorPrecision precision) const { return pooling_.row_bytes(precision); }
  // Upper bound of the argmax of a batch, over all batches.
  size_t max_argmax_bytes() const {
    return kMaxBatchSamples * layout_.max_columns() * kMaxArgmaxBytes;
  }

 private:
  class WaitTicket;

  // Decodes a batch, checks it and plans its requests. Threads: a compute thread.
  Status DecodeAndPlan(BufferedBatch& batch) const;
  [[nodiscard]] rpc::awaitable<StatusOr<ForwardBuffer::Place>> ReserveSpace(
      SubmitOptions options, size_t bytes, rpc::Clock::time_point deadline);
  // Updates the metrics and wakes submits that can be admitted, after a change of the buffer.
  void NoteBuffer();

  StatusOr<std::shared_ptr<BufferedBatch>> Find(const BatchReference& reference);

  // Pools the rows into `embeddings`, or encodes them unpooled. Returns the argmax if requested. On
  // a compute thread.
  PooledArgmax PoolRows(const BufferedBatch& batch, const AlignedBuffer& rows,
                        const EmbeddingBuffer& embeddings, bool with_argmax);
  // Calls BatchPooling::Unpool, on a compute thread.
  // Errors: INVALID_ARGUMENT for argmax that do not fit the batch.
  StatusOr<std::vector<size_t>> UnpoolRows(const BufferedBatch& batch,
                                           const GradientBuffer& gradients,
                                           const AlignedBuffer& row_gradients);

  const RowCodec& RowCodecOf(VectorPrecision precision) const {
    return row_codecs_[static_cast<size_t>(precision)];
  }
  // Removes and counts a consumed batch. Returns false if another call has removed it.
  bool Finish(const BatchReference& reference, const BufferedBatch& batch);

  const BatchLayout layout_;
  const BucketMap map_;
  const BatchPooling pooling_;
  std::vector<RowCodec> row_codecs_;  // Indexed by precision.
  const uint64_t incarnation_;
  const size_t ranks_;
  const rpc::asio::any_io_executor compute_;
  WorkerMetrics& metrics_;
  ForwardBuffer buffer_;
  std::list<WaitTicket*> waiting_;  // Tickets in the order of submission.
  BatchPool batches_;
  RowExchange rows_;
  std::vector<std::string> feature_names_;
  LogLimiter dropped_log_{/*lines=*/10, std::chrono::seconds(10)};
};

// Registers SubmitBatch, PullBatch, PushBatch and the calls that are passed on to all servers.
// Lifetime: the worker must outlive the server.
void RegisterBatchMethods(rpc::Server& server, EmbeddingWorker& worker);

}  // namespace simurgh
