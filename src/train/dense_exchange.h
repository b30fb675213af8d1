#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

#include "base/aligned_buffer.h"
#include "base/mutex.h"
#include "base/status.h"
#include "train/ports.h"
#include "train/retry.h"

namespace simurgh {

struct DenseExchangeOptions {
  uint64_t run = 0;
  uint32_t rank = 0;
  DenseOptimizerConfig optimizer;
  uint32_t staleness = 1;  // Own pushes that the next weights may lack, plus one; >= 1.
  std::chrono::milliseconds retry_deadline{60'000};  // Counted from the first failure of a call.
};

// A trainer's side of dense weights that servers own. Sends gradients one push at a time, while the
// trainer computes; each answer has new weights. The weights of step t contain the own pushes up to
// t - staleness at least, and those of other ranks that arrived before.
//
// Failed calls are retried as in BatchPipeline. Servers apply a push once, by its number.
//
// Threads: one owner; Stop by any. Lifetime: the port must outlive this. The destructor waits until
// the port has answered.
class DenseExchange {
 public:
  DenseExchange(DensePort& port, const DenseExchangeOptions& options);
  ~DenseExchange();

  // Sets the initial weights of servers that have none, then pulls the servers' weights. state: the
  // optimizer's state, from PullState(); empty for a new one.
  // Errors: of a call that is not retryable or past its deadline; CANCELLED after Stop.
  Status Start(std::span<float> parameters, std::span<const float> state);

  // Waits until the next step may begin. Then, if newer weights were received, calls `parameters`
  // and copies them to its result. Errors: as Start.
  Status TakeWeights(absl::FunctionRef<std::span<float>()> parameters);

  // Copies and sends gradients of the weights taken last.
  void Push(uint64_t step, float learning_rate, std::span<const float> gradients);

  // Waits until all pushes are acknowledged. Errors: as Start.
  Status WaitForPushes();

  // Copies the servers' current weights to `parameters`. Errors: as Start.
  Status Pull(std::span<float> parameters);

  // Returns the optimizer's state on the servers: see DensePort::PullState. Call once no rank
  // pushes. Errors: as Start.
  StatusOr<std::vector<float>> PullState(size_t weights);

  // Returns DenseVersions::gap of each push acknowledged since the last call.
  std::vector<uint64_t> TakeGaps();

  // Ends all waiting with CANCELLED.
  void Stop();

 private:
  struct Operation {
    enum class Kind { kStart, kPull, kPullState, kPush };

    Kind kind = Kind::kPull;
    const char* name = "";
    uint64_t step = 0;
    DensePush push;                             // kPush only.
    std::shared_ptr<AlignedBuffer> sent;        // Initial weights or gradients.
    std::shared_ptr<AlignedBuffer> sent_state;  // kStart only, with its number of floats.
    size_t sent_state_count = 0;
    std::shared_ptr<AlignedBuffer> received;  // Weights or state, of the current attempt.
    size_t count = 0;                         // Floats of each buffer, or weights of a state.
    bool under_way = false;
    RetryClock retry;
    std::chrono::steady_clock::time_point began;
  };

  std::shared_ptr<AlignedBuffer> CopyOf(std::span<const float> values);
  void Enqueue(Operation operation);
  // Waits until `ready` holds or a call has failed for good. Starts due retries meanwhile.
  void WaitUntil(absl::FunctionRef<bool()> ready);
  Status CopyNewest(absl::FunctionRef<std::span<float>()> parameters);
  // Marks the first operation as started, if it is due, and returns a copy for Call: the answer
  // may remove the operation at any time.
  std::optional<Operation> StartNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Call(const Operation& operation);
  void OnAnswer(StatusOr<DenseVersions> answer);

  DensePort& port_;
  const DenseExchangeOptions options_;
  BufferPool buffers_;
  std::vector<uint64_t> taken_versions_;  // Versions of the weights taken last.
  uint64_t pushes_ = 0;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Operation> operations_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const AlignedBuffer> newest_ ABSL_GUARDED_BY(mutex_);  // Weights received last.
  std::vector<uint64_t> newest_versions_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const AlignedBuffer> state_ ABSL_GUARDED_BY(mutex_);  // State received last.
  std::vector<uint64_t> gaps_ ABSL_GUARDED_BY(mutex_);
  Status status_ ABSL_GUARDED_BY(mutex_);
  uint64_t calls_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace simurgh
