#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "train/batch_pipeline.h"
#include "train/retry.h"

namespace simurgh {

// Bounds how many earlier steps the rows of a batch lack, where some may be cached rows of the pull
// of an earlier step.
//
// Threads: one at a time.
class RowStaleness {
 public:
  // window: when Of(step) is called, fewer than `window` later steps have begun. Rows are at most
  // row_age_steps old.
  RowStaleness(uint32_t window, uint32_t row_age_steps)
      : row_age_steps_(row_age_steps), unacknowledged_(window + row_age_steps + 1) {}

  // unacknowledged: number of earlier steps at the start of the step's pull.
  void Note(uint64_t step, uint32_t unacknowledged) {
    unacknowledged_[step % unacknowledged_.size()] = unacknowledged;
  }

  // A row of the pull of step s lacks the steps that were unacknowledged then, and the steps from s
  // on. oldest_row: age of the oldest row in steps; other rows may have any age up to it.
  uint32_t Of(uint64_t step, uint32_t oldest_row) const {
    uint32_t staleness = 0;
    const uint64_t oldest = std::min<uint64_t>({oldest_row, row_age_steps_, step});
    for (uint32_t age = 0; age <= oldest; ++age) {
      const uint32_t before = unacknowledged_[(step - age) % unacknowledged_.size()];
      staleness = std::max(staleness, before + age);
    }
    return staleness;
  }

 private:
  const uint32_t row_age_steps_;
  std::vector<uint32_t> unacknowledged_;  // Indexed by step modulo the size.
};

enum class BatchCall { kSubmit, kPull, kPush };

// A batch between Feed and the acknowledgement of its push.
struct PendingBatch {
  enum class State {
    kUnsubmitted,  // No embedding worker has it.
    kSubmitting,
    kWaiting,  // Submitted; waits for its turn to be pulled or, when computed, pushed.
    kPulling,
    kPulled,
    kPushing,
    kDone,
  };

  Batch batch;
  std::shared_ptr<const EncodedBatch> encoded;  // Set until the first submit; may be null.
  uint64_t step = 0;
  State state = State::kUnsubmitted;
  bool permit = false;         // Counts into the staleness: from its first pull to acknowledgement.
  bool awaits_pushes = false;  // Its pull has been sent before the last push.
  bool handed_out = false;     // The trainer has taken it.
  bool computed = false;       // The batch has its gradients.
  BatchReference reference;
  std::shared_ptr<BatchBlock> block;  // Null before the first pull.
  PooledArgmax argmax;
  RetryClock retry;
  uint32_t staleness = 0;
  std::chrono::steady_clock::time_point call_began;
  uint64_t profile_range = 0;
  PulledBatch pulled;  // The trainer's view.

  bool is_pulled() const { return computed || state == State::kPulled; }
  bool is_unacknowledged() const { return computed && state != State::kDone; }
};

// A call that can start. Its batch is in the state of the call already.
struct StartedCall {
  PendingBatch* batch = nullptr;
  BatchCall call = BatchCall::kSubmit;
  NeededPushes needed;         // Pull only.
  uint32_t row_age_steps = 0;  // Pull only: PullOptions::row_age_steps.
};

// The batches of a pipeline in the order of their steps, and the rules of when their calls may
// start. Does not call ports and does not wait.
//
// Threads: one at a time.
class BatchQueue {
 public:
  using Clock = std::chrono::steady_clock;

  explicit BatchQueue(const PipelineOptions& options);

  // encoded: the result of EmbeddingPort::Encode().
  void Add(Batch batch, std::shared_ptr<const EncodedBatch> encoded = nullptr);
  void EndInput() { input_ended_ = true; }

  // Returns all calls that can start now.
  std::vector<StartedCall> StartCalls(Clock::time_point now);

  // The model is saved before the step of the batch that is added next.
  void Mark() { marks_.push_back(next_step_); }
  // Returns whether all steps before a mark have been taken: pulls of later steps wait for Lift().
  bool at_mark() const;
  void Lift();

  // Answers to calls. must_resubmit: the worker has lost the batch.
  void OnSubmitted(PendingBatch& pending, const BatchReference& reference);
  void OnPulled(PendingBatch& pending, PullAnswer answer);
  void OnFailed(PendingBatch& pending, BatchCall call, bool must_resubmit);
  // The batch's push is acknowledged, or its evaluation is finished.
  void ReleaseBatch(PendingBatch& pending);

  // The next batch for the trainer, pulled or not, or null. Take hands it out.
  PendingBatch* NextForTrainer() const;
  const PulledBatch* Take(PendingBatch& pending);
  // Marks the trainer's first unfinished batch as computed.
  void Finish();

  // Batches that are not pulled and have no permit yet.
  size_t waiting() const;
  bool input_ended() const { return input_ended_; }
  bool all_acknowledged() const;
  // Time of the next retry; Clock::time_point::max() when none is pending.
  Clock::time_point next_retry(Clock::time_point now) const;

 private:
  // With awaits_pushes: returns whether a batch may be pulled whose earlier ones are pulled.
  bool MayPullAhead(const PendingBatch& pending) const;
  bool MayPush(const PendingBatch& pending) const;
  StartedCall StartPull(PendingBatch& pending);

  const PipelineOptions options_;
  std::deque<std::unique_ptr<PendingBatch>> pending_;
  uint64_t next_step_;
  std::deque<uint64_t> marks_;  // Steps, ascending.
  // Rows that are pulled from here on are kept for later steps; see row_age_steps.
  uint64_t rows_kept_from_;
  uint32_t outstanding_ = 0;  // Batches that hold a permit.
  RowStaleness row_staleness_;
  bool input_ended_ = false;
};

}  // namespace simurgh
