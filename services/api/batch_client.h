#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "rpc/client.h"
#include "simurgh/train/ports.h"

namespace simurgh {

// The embedding workers across the network. Batches go to the workers in turn; one that could not
// be reached is left out for a while.
//
// Lifetime: outlive every call. The executor's thread must run until every call has been answered.
class BatchClient : public EmbeddingPort {
 public:
  // clients: by worker, all on `executor`.
  BatchClient(rpc::asio::any_io_executor executor,
              std::vector<std::unique_ptr<rpc::Client>> clients,
              std::chrono::milliseconds call_timeout);

  void Submit(std::shared_ptr<const CompactBatch> batch,
              std::function<void(StatusOr<BatchReference>)> done) override;
  void Pull(BatchReference batch, PullPurpose purpose, TrainerPosition position,
            uint64_t acknowledged_steps, MatrixView<float> embeddings, std::shared_ptr<void> owner,
            std::function<void(Status)> done) override;
  void Push(BatchReference batch, TrainerPosition position, MatrixView<const float> gradients,
            std::shared_ptr<const void> owner, std::function<void(Status)> done) override;

  // After the pause, fails every call, present and future, with CANCELLED. From any thread.
  void StopAfter(std::chrono::milliseconds pause);

 private:
  rpc::Clock::time_point Deadline() const { return rpc::Clock::now() + call_timeout_; }
  uint32_t NextWorker();
  // The status with the worker's name, after remembering whether it could be reached.
  Status Judge(uint32_t worker, const Status& status);
  [[nodiscard]] rpc::awaitable<StatusOr<BatchReference>> SubmitToNext(
      std::shared_ptr<const CompactBatch> batch, rpc::Clock::time_point deadline);
  [[nodiscard]] rpc::awaitable<Status> CallTo(uint32_t worker, rpc::MethodId method,
                                              rpc::OutgoingMessage request,
                                              rpc::Placement placement,
                                              rpc::Clock::time_point deadline);

  const rpc::asio::any_io_executor executor_;
  // Shared with coroutines that may outlive this.
  const std::shared_ptr<const std::vector<std::unique_ptr<rpc::Client>>> clients_;
  const std::chrono::milliseconds call_timeout_;
  // The executor's:
  uint32_t next_worker_ = 0;
  std::vector<rpc::Clock::time_point> avoid_until_;  // By worker.
};

}  // namespace simurgh
