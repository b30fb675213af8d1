#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/data/batch.h"
#include "simurgh/nn/batch_block.h"
#include "simurgh/telemetry/timeline.h"
#include "simurgh/train/ports.h"

namespace simurgh {

struct PipelineOptions {
  LookupMode purpose = LookupMode::kTrain;
  uint64_t run = 0;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  PushOrder order = PushOrder::kUnordered;  // Of the ranks' pushes.
  uint32_t staleness = 1;       // Batches between pull and acknowledged push, at most; >= 1.
  uint32_t row_age_steps = 0;   // As PullOptions; a training pull's.
  bool reproducible = false;    // See BatchPipeline.
  bool one_by_one = false;      // A pull waits until all earlier pushes have been sent.
  uint64_t trained_steps = 0;   // Of the run, all acknowledged; for evaluation.
  BlockPool* blocks = nullptr;  // Of the batches' memory. Outlives the pipeline.
  size_t queue_batches = 16;    // Batches handed over but not yet pulled, at most.
  std::chrono::milliseconds retry_deadline{60'000};  // How long one batch may keep failing.
  Timeline* timeline = nullptr;                      // Told of calls. Outlives the pipeline.
};

// A batch with its embeddings, in the trainer's hands between Next and Finish.
struct PulledBatch {
  const Batch* batch = nullptr;
  uint64_t step = 0;
  BatchBlock* block =
      nullptr;  // With its embeddings; its gradients are to be filled before Finish.
  // Of this rank's earlier steps, how many its rows may lack: those not acknowledged at its pull,
  // or at the pull that its oldest rows come from. Below staleness + row_age_steps.
  uint32_t staleness = 0;
};

// Takes batches through submit, pull and push, so that the network never waits for what could have
// been on its way. Steps are numbered from 0 in the order of Feed.
//
// Every batch is kept, with its gradients, until its push is acknowledged. Memory for them is
// leased when a batch is pulled: for as many as `staleness` allows. A failed call is retried with
// growing pauses until `retry_deadline` has passed since the batch's first failure; a batch whose
// embedding worker is gone or has forgotten it is submitted anew, possibly elsewhere.
//
// Where rows may be some steps old, a batch's staleness counts that: a row that came with the pull
// of step s lacks, at step t, what was not acknowledged at s, and the steps from s to t.
//
// Free running, a pull starts as soon as fewer than `staleness` batches are outstanding. With
// `reproducible`, the pull of step t sees exactly the pushes up to step t - staleness: pulls are
// made one at a time, pull t after push t - staleness is acknowledged, and push s leaves after pull
// s + staleness - 1 has been answered. This order is complete for one
// rank; for several, servers hold each step's pushes until all ranks' have come (`order`), and as
// none is acknowledged before, the pull of t sees those of all ranks.
//
// For evaluation there are no pushes: Finish lets the batch go.
//
// Threads: Feed and EndInput by a loader; Next, Finish, WaitForPushes by a trainer; Stop by anyone.
// Lifetime: the port must outlive this. The destructor waits until the port has answered every
// call.
class BatchPipeline {
 public:
  BatchPipeline(EmbeddingPort& port, PipelineOptions options);
  ~BatchPipeline();

  // Waits for room in the queue. False once the pipeline has stopped: nothing more is wanted.
  bool Feed(Batch batch);

  // No more batches; `status` tells whether the input ended well.
  void EndInput(Status status);

  // Waits for the next step's embeddings. Null after the last one.
  // Errors: of the input; of a call, once past its retry deadline or not worth a retry; CANCELLED
  // after Stop.
  StatusOr<const PulledBatch*> Next();

  // As Next, where that need not wait; else null. So a trainer can have the next batch before he is
  // done with this one.
  const PulledBatch* TakeNext();

  // The trainer is done with the first batch that he still has.
  void Finish();

  // Waits until the push of every finished batch is acknowledged. Batches pulled ahead stay as they
  // are. Errors: as Next.
  Status WaitForPushes();

  // Ends all waiting with CANCELLED.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace simurgh
