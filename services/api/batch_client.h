#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "services/api/batch_codec.h"
#include "services/api/peer_clients.h"
#include "services/api/vector_wire.h"
#include "simurgh/base/random.h"
#include "simurgh/train/learning_rates.h"
#include "simurgh/train/ports.h"

namespace simurgh {

// The embedding workers across the network. Batches go to the workers in turn; one that could not
// be reached is left out for a while, and calls for batches that it has do not wait for its return
// while others can take them over.
//
// Lifetime: outlive every call. The executor's thread must run until every call has been answered.
class BatchClient : public EmbeddingPort {
 public:
  // workers: all on `executor`. encoder: where batches and vectors are coded, whose
  // threads end before the executor does. Lifetime: `rates` and `wire` outlive the client.
  BatchClient(rpc::asio::any_io_executor executor, rpc::asio::any_io_executor encoder,
              std::vector<std::unique_ptr<PeerClients>> workers,
              std::chrono::milliseconds call_timeout, const LearningRates& rates, VectorWire& wire);

  void Submit(std::shared_ptr<const CompactBatch> batch, const SubmitOptions& terms,
              std::function<void(StatusOr<BatchReference>)> done) override;
  void Pull(BatchReference batch, const PullOptions& terms, EmbeddingBuffer embeddings,
            std::function<void(StatusOr<PullAnswer>)> done) override;
  void Push(BatchReference batch, StepId position, GradientBuffer gradients,
            std::function<void(Status)> done) override;

  void Stop() override { StopAfter(std::chrono::milliseconds(0)); }

  // After the pause, fails every call, present and future, with CANCELLED. From any thread.
  void StopAfter(std::chrono::milliseconds pause);

 private:
  rpc::Clock::time_point Deadline() const { return rpc::Clock::now() + call_timeout_; }
  // Whether a worker could be reached, as far as is known.
  bool IsReachable(uint32_t worker) const { return avoid_until_[worker] <= rpc::Clock::now(); }
  // In turn; ranks begin each with another one, so that a step of all does not meet at one.
  uint32_t NextWorker(uint32_t rank);
  // Of a call to this worker.
  rpc::CallOptions OptionsFor(uint32_t worker, uint64_t trace, rpc::Clock::time_point deadline);
  // The status with the names of worker and trace, after remembering whether the worker could be
  // reached.
  Status AnnotateError(uint32_t worker, uint64_t trace, const Status& status);
  // For one more call in a batch's trace.
  rpc::Trace NextSpan(uint64_t trace) { return rpc::Trace{.trace_id = trace}.Child(++spans_); }
  [[nodiscard]] rpc::awaitable<StatusOr<BatchReference>> SubmitToNext(
      std::shared_ptr<const CompactBatch> batch, SubmitOptions terms,
      rpc::Clock::time_point deadline);
  // To the worker of the message's reference.
  [[nodiscard]] rpc::awaitable<StatusOr<PullAnswer>> SendPull(api::PullBatchMessage message,
                                                              EmbeddingBuffer wanted,
                                                              rpc::Clock::time_point deadline);
  [[nodiscard]] rpc::awaitable<Status> SendPush(api::PushBatchMessage message, GradientBuffer given,
                                                rpc::Clock::time_point deadline);

  const rpc::asio::any_io_executor executor_;
  const rpc::asio::any_io_executor encoder_;
  // Shared with coroutines that may outlive this.
  const std::shared_ptr<const std::vector<std::unique_ptr<PeerClients>>> workers_;
  const std::chrono::milliseconds call_timeout_;
  const LearningRates& rates_;
  VectorWire& wire_;
  // The executor's:
  uint32_t next_worker_ = 0;
  Random traces_;
  uint64_t spans_ = 0;
  std::vector<rpc::Clock::time_point> avoid_until_;  // By worker.
};

}  // namespace simurgh
