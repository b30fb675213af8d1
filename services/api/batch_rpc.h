#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/random.h"
#include "base/status.h"
#include "config/cluster_config.h"
#include "config/embedding_form.h"
#include "data/batch/encoded_batch.h"
#include "embedding/batch_plan.h"
#include "services/api/methods.h"
#include "services/api/peer_clients.h"
#include "services/api/row_rpc.h"
#include "train/learning_rates.h"
#include "train/ports.h"

namespace simurgh::api {

struct PullBatchMessage {
  BatchReference reference;
  PullOptions options;
  VectorPrecision precision = VectorPrecision::kF32;
  EmbeddingForm form = EmbeddingForm::kPooled;
};

struct PushBatchMessage {
  BatchReference reference;
  StepId step_id;
  std::vector<float> learning_rates;  // One per table.
  VectorPrecision precision = VectorPrecision::kF32;
  EmbeddingForm form = EmbeddingForm::kPooled;
  float scale = 1;  // Factor of the gradients.
};

// The segments refer to the batch's arrays.
rpc::Outgoing<SubmitBatch::Request> Encode(const SubmitOptions& options,
                                           const std::shared_ptr<const EncodedBatch>& batch);
// Errors: INVALID_ARGUMENT for an unknown mode, or lookahead_steps outside SubmitOptions' range.
StatusOr<SubmitOptions> Decode(const wire::SubmitBatchRequest& request);

// Allocates the segments of a submit request in `batch`, which `owner` keeps alive.
// Errors: INVALID_ARGUMENT for segments larger than the largest batch's.
StatusOr<rpc::Destinations<SubmitBatch::Request>> PlaceSubmit(
    const SubmitBatch::Request::Counts& counts, EncodedBatch& batch,
    const std::shared_ptr<void>& owner);

rpc::Outgoing<SubmitBatch::Response> Encode(const BatchReference& reference);
BatchReference Decode(const wire::BatchReference& reference);

rpc::Outgoing<PullBatch::Request> Encode(const PullBatchMessage& message);
// Errors: INVALID_ARGUMENT for an unknown mode, precision or form.
StatusOr<PullBatchMessage> Decode(const wire::PullBatchRequest& request);

rpc::Outgoing<PullBatch::Response> Encode(const PullAnswer& answer,
                                          rpc::SegmentSource<std::byte> embeddings);

rpc::Outgoing<PushBatch::Request> Encode(const PushBatchMessage& message,
                                         rpc::SegmentSource<std::byte> gradients,
                                         const PooledArgmax& argmax);
// Errors: INVALID_ARGUMENT for an unknown precision, or a scale that is not a normal number above
// 0.
StatusOr<PushBatchMessage> Decode(const wire::PushBatchRequest& request);

}  // namespace simurgh::api

namespace simurgh {

// Calls the embedding workers of a cluster. Distributes batches round-robin and skips an
// unreachable worker for a while. Calls for its batches fail at once while other workers can take
// the batches over.
//
// Lifetime: outlive every call. The executor's thread must run until every call has been answered.
class BatchClient : public EmbeddingPort {
 public:
  // workers: all on `executor`. Lifetime: `rates` outlive the client.
  BatchClient(rpc::asio::any_io_executor executor,
              std::vector<std::unique_ptr<PeerClients>> workers, const ClusterConfig& config,
              const LearningRates& rates);

  StatusOr<std::shared_ptr<const EncodedBatch>> Encode(const CompactBatch& batch) override;
  void Submit(SubmittedIds ids, const SubmitOptions& options,
              std::function<void(StatusOr<BatchReference>)> done) override;
  void Pull(BatchReference batch, const PullOptions& options, EmbeddingBuffer embeddings,
            std::function<void(StatusOr<PullAnswer>)> done) override;
  void Push(BatchReference batch, StepId step_id, GradientBuffer gradients,
            std::function<void(Status)> done) override;

  // Tells the servers, through every worker, that a rank of a run has ended. Waits up to `timeout`.
  // May be called after Stop(). Errors are ignored: servers then wait for embedding_ps.run_timeout.
  // Threads: not the executor's.
  void EndRun(const StepId& step_id, std::chrono::milliseconds timeout);

  // Starts to save the rows of all servers into a folder of checkpoint.directory, or reports on it:
  // repeat the call until it is done. Calls the workers in turn, until one answers.
  // Errors: of RowSaver, naming the server; UNAVAILABLE or DEADLINE_EXCEEDED of the last worker.
  // Threads: not the executor's.
  StatusOr<SaveProgress> SaveRows(const SaveRowsCall& call);
  // Loads the rows of a checkpoint in the same way, by RowPort::RestoreRows.
  StatusOr<SaveProgress> RestoreRows(const RestoreRowsCall& call);

  void Stop() override { StopAfter(std::chrono::milliseconds(0)); }

  // After the pause, fails pending and later calls with CANCELLED. Threads: any.
  void StopAfter(std::chrono::milliseconds pause);

 private:
  // Makes a call to the first embedding worker that answers.
  template <typename Method, typename Call>
  StatusOr<SaveProgress> CallOne(const Method& method, const Call& call);

  rpc::Clock::time_point Deadline() const { return rpc::Clock::now() + call_timeout_; }
  bool IsReachable(uint32_t worker) const { return avoid_until_[worker] <= rpc::Clock::now(); }
  // Selects a worker round-robin. Ranks start at different workers, to spread a step's batches.
  uint32_t NextWorker(uint32_t rank);
  rpc::CallOptions OptionsFor(uint32_t worker, uint64_t trace, rpc::Clock::time_point deadline);
  // Adds worker and trace to the error. Records an unreachable worker.
  Status AnnotateError(uint32_t worker, uint64_t trace, const Status& status);
  // Returns the largest size of the argmax of the samples that the buffer has room for.
  size_t MaxArgmaxBytes(const EmbeddingBuffer& buffer) const;
  rpc::Trace NextSpan(uint64_t trace) { return rpc::Trace{.trace_id = trace}.Child(++spans_); }

  const rpc::asio::any_io_executor executor_;
  // Shared with coroutines that may outlive this.
  const std::shared_ptr<const std::vector<std::unique_ptr<PeerClients>>> workers_;
  const std::chrono::milliseconds call_timeout_;
  const LearningRates& rates_;
  const BatchLayout layout_;
  BufferPool memory_;  // Memory of argmax.
  // The following members are used on the executor only.
  uint32_t next_worker_ = 0;
  Random traces_;
  uint64_t spans_ = 0;
  std::vector<rpc::Clock::time_point> avoid_until_;  // Indexed by worker.
};

}  // namespace simurgh
