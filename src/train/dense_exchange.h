#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/aligned_buffer.h"
#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/telemetry/timeline.h"
#include "simurgh/train/ports.h"
#include "train/retry.h"

namespace simurgh {

struct DenseExchangeOptions {
  uint64_t run = 0;
  uint32_t rank = 0;
  DenseOptimizerConfig optimizer;  // Of the servers.
  uint32_t staleness = 1;          // Own pushes that the next weights may lack, plus one; >= 1.
  std::chrono::milliseconds retry_deadline{60'000};  // How long one call may keep failing.
  Timeline* timeline = nullptr;                      // Told of pushes; outlives the exchange.
};

// A trainer's side of dense weights that servers own: its gradients go there, one push after the
// other, and each comes back as new weights, while it computes. The weights of step t hold its own
// pushes up to t - staleness at least, and what other ranks had pushed by then.
//
// A failed call is retried as in BatchPipeline: its number sees to it that it is applied once.
//
// Threads: one owner, but for Stop. Lifetime: the port outlives this; the destructor waits until it
// has answered.
class DenseExchange {
 public:
  DenseExchange(DensePort& port, const DenseExchangeOptions& options);
  ~DenseExchange();

  // Gives the servers these first weights, or takes the ones that they have.
  // Errors: of the port, once past the retry deadline or not worth a retry; CANCELLED after Stop.
  Status Start(std::span<float> parameters);

  // Waits until the next step may begin, and replaces parameters by the newest weights that have
  // come. Errors: as Start.
  Status TakeWeights(std::span<float> parameters);

  // Sends gradients, made with the weights that were taken last; copies them.
  void Push(uint64_t step, float learning_rate, std::span<const float> gradients);

  // Waits until all pushes are acknowledged. Errors: as Start.
  Status WaitForPushes();

  // Replaces parameters by the servers' present weights. Errors: as Start.
  Status Pull(std::span<float> parameters);

  // Of the pushes that were acknowledged since the last call, how many others had come between
  // their weights and themselves.
  std::vector<uint64_t> TakeGaps();

  // Ends all waiting with CANCELLED.
  void Stop();

 private:
  struct Operation {
    enum class Kind { kStart, kPull, kPush };

    Kind kind = Kind::kPull;
    const char* name = "";
    uint64_t step = 0;
    DensePush push;                           // kPush
    std::shared_ptr<AlignedBuffer> sent;      // First weights or gradients.
    std::shared_ptr<AlignedBuffer> received;  // Weights; of the present attempt.
    size_t count = 0;                         // Floats of each.
    bool under_way = false;
    RetryClock retry;
    Timeline::Clock::time_point began;
  };
  using Call = std::function<void()>;

  std::shared_ptr<AlignedBuffer> CopyOf(std::span<const float> values);
  // Adds an operation behind the others.
  void Enqueue(Operation operation);
  // Waits until `ready` holds or all has failed, trying again what failed as it falls due.
  void WaitUntil(const std::function<bool()>& ready);
  // Waits until nothing is left to do, and takes the newest weights.
  Status Settle(std::span<float> parameters);
  Status CopyNewest(std::span<float> parameters);

  // The call to make now, if any; marks it as made.
  Call Startable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Call CallOf(Operation& operation);
  void OnAnswer(StatusOr<DenseVersions> answer);
  void OnFailure(Operation& operation, const Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  DensePort& port_;
  const DenseExchangeOptions options_;
  BufferPool buffers_;
  // The owner's:
  std::vector<uint64_t> taken_versions_;  // Of its weights.
  uint64_t pushes_ = 0;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Operation> operations_ ABSL_GUARDED_BY(mutex_);  // The first one is under way.
  std::shared_ptr<const AlignedBuffer> newest_ ABSL_GUARDED_BY(mutex_);  // Weights that came last.
  std::vector<uint64_t> newest_versions_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> gaps_ ABSL_GUARDED_BY(mutex_);
  Status status_ ABSL_GUARDED_BY(mutex_);
  uint64_t calls_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace simurgh
