#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "config/training_config.h"
#include "embedding/batch_calls.h"

namespace simurgh {

// The trainer's interface to the cluster: pulls embeddings and pushes their gradients.
//
// Every call invokes `done` exactly once, on any thread. `done` must not block. The port holds a
// buffer's `owner` as long as it accesses the buffer, possibly a little longer than until `done`.
// Calls do not retry.
//
// Retryable errors: UNAVAILABLE (the worker is lost: submit again, possibly to another worker),
// NOT_FOUND (the reference expired, or its worker restarted: submit again), ABORTED (a parameter
// server is lost; the reference stays valid), DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED (the forward
// buffer is full). All others are final; DATA_LOSS: a server has lost rows of this run.
// Threads: all members may be called from any thread.
class EmbeddingPort {
 public:
  virtual ~EmbeddingPort() = default;

  // Encodes a batch for Submit, on the thread that made it; null if the port takes batches as they
  // are. Errors: of EncodeBatch.
  virtual StatusOr<std::shared_ptr<const EncodedBatch>> Encode(const CompactBatch& /*batch*/) {
    return nullptr;
  }

  // Submits a batch's ids, and encodes them on the calling thread if that is left to do. A full
  // forward buffer still admits a rank's first `lookahead_steps` pending steps of each mode, for
  // which the run waits.
  virtual void Submit(SubmittedIds ids, const SubmitOptions& options,
                      std::function<void(StatusOr<BatchReference>)> done) = 0;

  // Pulls pooled embeddings, features side by side in configured order, (B, embedding width). An
  // evaluation pull consumes the reference; a training pull leaves it for Push. Rows are at most
  // options.row_age_steps old.
  // The buffer's precision and form are those of the wire.
  virtual void Pull(BatchReference batch, const PullOptions& options, EmbeddingBuffer embeddings,
                    std::function<void(StatusOr<PullAnswer>)> done) = 0;

  // Pushes gradients (B, embedding width); ok once every server has applied them. A repeated push
  // is applied once. Consumes the reference when ok.
  // The gradients have the precision and scale of the wire.
  virtual void Push(BatchReference batch, StepId step_id, GradientBuffer gradients,
                    std::function<void(Status)> done) = 0;

  // Call after a failure of the run. Pending and later calls may then fail with CANCELLED.
  virtual void Stop() {}
};

// A push of a rank's dense gradients.
struct DensePush {
  uint64_t run = 0;
  uint32_t rank = 0;
  uint64_t number = 0;                  // Counts the rank's pushes, from 0.
  std::vector<uint64_t> base_versions;  // One per server: version of the weights of the gradients.
  float learning_rate = 0;
};

struct DenseVersions {
  std::vector<uint64_t> versions;  // One per server: number of pushes applied to its weights.
  uint64_t gap = 0;  // Push only: maximum number of other pushes applied since its weights.
};

// Dense weights and their optimizer's state on servers, each of which owns a range of the flat
// weights.
//
// A rank pushes one after another, in the order of the numbers. A repeated push is applied once.
//
// Calls complete as those of EmbeddingPort. Retryable errors: UNAVAILABLE, DEADLINE_EXCEEDED,
// RESOURCE_EXHAUSTED. DATA_LOSS: a server has lost the weights of this run. Threads: any.
class DensePort {
 public:
  virtual ~DensePort() = default;

  // Sets the run's initial weights on servers that have none. All ranks pass the same. state: as
  // PullState has returned it; empty for a new optimizer.
  virtual void Start(uint64_t run, const DenseOptimizerConfig& optimizer,
                     std::span<const float> parameters, std::span<const float> state,
                     std::shared_ptr<const void> owner, std::function<void(Status)> done) = 0;

  // Copies the servers' current weights into `parameters`.
  virtual void Pull(uint64_t run, std::span<float> parameters, std::shared_ptr<void> owner,
                    std::function<void(StatusOr<DenseVersions>)> done) = 0;

  // Copies the state of the optimizer of `weights` weights into `state`: the optimizer's values of
  // DenseNetwork::state. Requires that no push is under way.
  virtual void PullState(uint64_t run, const DenseOptimizerConfig& optimizer, size_t weights,
                         std::span<float> state, std::shared_ptr<void> owner,
                         std::function<void(Status)> done) = 0;

  // Applies the gradients; copies the resulting weights into `parameters`.
  virtual void Push(const DensePush& push, std::span<const float> gradients,
                    std::span<float> parameters, std::shared_ptr<void> owner,
                    std::function<void(StatusOr<DenseVersions>)> done) = 0;
};

}  // namespace simurgh
