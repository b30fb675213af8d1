#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

#include "base/mutex.h"
#include "base/status.h"
#include "data/batch/batch.h"
#include "nn/batch_block.h"
#include "nn/dense_network.h"
#include "train/ports.h"

namespace simurgh {

class BatchQueue;
enum class BatchCall;
struct PendingBatch;
struct StartedCall;

struct PipelineOptions {
  LookupMode mode = LookupMode::kTrain;
  uint64_t run = 0;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  PushOrder order = PushOrder::kUnordered;
  uint32_t staleness = 1;       // Maximum batches between pull and acknowledged push; >= 1.
  uint32_t row_age_steps = 0;   // See PullOptions.
  bool reproducible = false;    // See BatchPipeline.
  bool one_by_one = false;      // A pull waits until all earlier pushes have been sent.
  bool awaits_pushes = false;   // See BatchPipeline. Requires staleness 1.
  uint64_t first_step = 0;      // Step of the first batch.
  uint64_t trained_steps = 0;   // Evaluation only: the run's steps, all acknowledged.
  BlockPool* blocks = nullptr;  // Leases the batches' memory. Outlives the pipeline.
  size_t queue_batches = 16;    // Maximum batches fed but not yet pulled.
  std::chrono::milliseconds retry_deadline{60'000};  // Counted from the first failure of a batch.
};

// A batch with its embeddings, valid between Next and Finish.
struct PulledBatch {
  const Batch* batch = nullptr;
  uint64_t step = 0;
  uint64_t trace = 0;           // See BatchReference.
  BatchBlock* block = nullptr;  // Holds the embeddings; receives the gradients before Finish.
  // Maximum of this rank's earlier steps that rows lack. Below staleness + row_age_steps.
  uint32_t staleness = 0;
};

// Submits, pulls and pushes batches ahead of the network, so that it does not wait for calls. Steps
// are numbered from `first_step` in the order of Feed.
//
// The pipeline keeps every batch, with its gradients, until its push is acknowledged. It leases
// their memory at the pull, for at most `staleness` batches and one with `awaits_pushes`. It
// retries a failed call with growing pauses until `retry_deadline` after the batch's first failure.
// If the embedding worker has died or lost the batch, it submits the batch again, possibly to
// another worker.
//
// A batch's staleness includes the age of cached rows: at step t, a row of the pull of step s lacks
// the steps that were unacknowledged at s, and the steps from s to t.
//
// Without `reproducible`, a pull starts as soon as fewer than `staleness` batches are outstanding.
// With it, the pull of step t sees exactly the pushes up to step t - staleness: the pipeline makes
// one pull at a time, pull t after push t - staleness is acknowledged, and push s after pull
// s + staleness - 1 is answered. With several ranks, servers hold each step's pushes until those of
// all ranks have arrived (`order`), so the pull of t sees the pushes of all ranks.
//
// With `awaits_pushes`, the pull of step t is sent once that of step t - 1 is answered. Servers
// read at once the rows that the push of step t - 1 does not change. They answer when that push is
// applied, of all ranks if they hold the steps' pushes. So the rows are the same, and the pull
// travels while the network computes.
//
// An evaluation does not push: Finish releases the batch.
//
// Threads: Feed, Mark and EndInput by a loader; Stop by any; the others by a trainer.
// Lifetime: the port must outlive this. The destructor waits until the port has answered all calls.
class BatchPipeline {
 public:
  BatchPipeline(EmbeddingPort& port, PipelineOptions options);
  ~BatchPipeline();

  // Encodes the batch, then waits for space in the queue. False once the pipeline has stopped.
  bool Feed(Batch batch);

  // Makes a mark before the next batch to be fed, like Batch::checkpoint_before of that batch.
  void Mark();

  // Ends the input, with an error if reading failed.
  void EndInput(Status status);

  // Waits for the next step's embeddings. Null after the last one, and at a mark, behind which no
  // row has been pulled.
  // Errors: of the input; of a call that is not retryable or past its deadline; CANCELLED after
  // Stop.
  StatusOr<const PulledBatch*> Next();

  bool at_mark();
  // Lets pulls go on after a mark. Requires at_mark().
  void Lift();

  // Batches that have been fed and are not pulled yet.
  size_t queued();

  // Does not wait: returns null if no batch is ready. The trainer may take a batch before
  // it has finished the previous one.
  const PulledBatch* TakeNext();

  // Marks the trainer's first unfinished batch as finished.
  void Finish();

  // Waits until the push of every finished batch is acknowledged. Keeps batches pulled ahead.
  // Errors: as Next.
  Status WaitForPushes();

  // Ends all waiting with CANCELLED.
  void Stop();

 private:
  // Returns the calls that can start now, for MakeCalls() after unlocking.
  std::vector<StartedCall> StartCalls(std::chrono::steady_clock::time_point now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeCalls(const std::vector<StartedCall>& calls);
  void Submit(PendingBatch& pending);
  void Pull(const StartedCall& started);
  void Push(PendingBatch& pending);
  StepId StepIdOf(const PendingBatch& pending) const;
  // Calls `change` under the lock, then starts all calls that became possible. Returns whether the
  // pipeline still works.
  bool Update(absl::FunctionRef<void()> change);
  // trace: the batch's trace id; 0 if it has none yet.
  void OnAnswer(PendingBatch& pending, BatchCall call, const Status& status, uint64_t trace,
                absl::FunctionRef<void()> on_success);
  // Waits until `ready` holds or the pipeline has failed. Starts due retries meanwhile.
  void WaitUntil(absl::FunctionRef<bool()> ready);

  EmbeddingPort& port_;
  const PipelineOptions options_;
  Mutex mutex_;
  CondVar changed_;
  const std::unique_ptr<BatchQueue> queue_ ABSL_PT_GUARDED_BY(mutex_);
  Status status_ ABSL_GUARDED_BY(mutex_);
  uint64_t calls_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The batches of a trainer's steps, between the pipeline and the network. A network that loads
// ahead gets the next batch while it computes. One that overlaps also copies the previous gradients
// meanwhile, and pushes them one step later.
//
// Threads: one owner. Lifetime: pipeline and network must outlive this.
class StepBatches {
 public:
  StepBatches(BatchPipeline& pipeline, DenseNetwork& network)
      : pipeline_(pipeline), network_(network) {}

  // Waits for the next step's embeddings, see BatchPipeline::Next(); takes the batch ahead if any.
  StatusOr<const PulledBatch*> Next();

  // Loads the next batch, if it has been pulled, and pushes the previous gradients. Call while the
  // network computes. Errors: of the network.
  Status Overlap();

  // Pushes the batch's gradients, or zeros if they are not usable. A network that overlaps
  // pushes them during the next step, if there is one yet. Errors: of the network.
  Status Release(const PulledBatch& pulled, bool applied);

  // Pushes the previous batch's gradients, if pending. Errors: of the network.
  Status Flush();

  // The next batch, if the network has it already.
  const PulledBatch* ahead() const { return ahead_; }

  // Batches that have been read and are not pulled yet.
  size_t queued() { return pipeline_.queued(); }

 private:
  void Prefetch();

  BatchPipeline& pipeline_;
  DenseNetwork& network_;
  const PulledBatch* ahead_ = nullptr;  // The next batch, if it has been taken already.
  const PulledBatch* last_ = nullptr;   // The previous batch, until its gradients are pushed.
};

}  // namespace simurgh
