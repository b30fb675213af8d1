#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "simurgh/base/check.h"
#include "simurgh/base/status.h"
#include "simurgh/config/embedding_form.h"
#include "simurgh/config/training_config.h"
#include "simurgh/config/vector_precision.h"
#include "simurgh/data/compact_batch.h"
#include "simurgh/table/partition.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh {

// A batch in the forward buffer of an embedding worker.
struct BatchReference {
  uint32_t worker = 0;              // Index of the worker.
  uint64_t worker_incarnation = 0;  // Which life of it minted the reference.
  uint64_t number = 0;
  uint64_t trace = 0;  // Under which the logs and errors of all processes know the batch; 0 none.
};

// Whose batch it is that is submitted, and when that rank needs it.
struct SubmitOptions {
  static constexpr uint32_t kMaxLookahead = 64;

  LookupMode purpose = LookupMode::kTrain;
  uint64_t run = 0;
  uint32_t rank = 0;
  uint64_t step = 0;  // Of the rank's batches of this purpose; earlier ones are needed first.
  // Of the rank's first steps under way, how many must have been pulled before the first one can
  // end: 1 to kMaxLookahead.
  uint32_t lookahead_steps = 1;
};

// How a batch is pulled.
struct PullOptions {
  LookupMode purpose = LookupMode::kTrain;
  StepId position;
  uint64_t acknowledged_steps = 0;  // How many of the rank's first steps are acknowledged.
  // A training pull may get rows as a pull of the same rank got them so many steps before.
  uint32_t row_age_steps = 0;
};

// Where the embeddings of a batch are put: its samples' rows as VectorCodec has them, or the rows
// of its ids as RowCodec has them. At a multiple of 4 bytes.
struct EmbeddingBuffer {
  EmbeddingBuffer(VectorPrecision as, std::span<std::byte> to, std::shared_ptr<void> keeper)
      : precision(as), bytes(to), owner(std::move(keeper)) {}
  // f32 into a matrix without gaps.
  EmbeddingBuffer(MatrixView<float> matrix, std::shared_ptr<void> keeper)
      : bytes(std::as_writable_bytes(matrix.flat())), owner(std::move(keeper)) {}

  // The numbers. Requires f32.
  std::span<float> floats() const {
    SIMURGH_CHECK(precision == VectorPrecision::kF32);
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
  }

  VectorPrecision precision = VectorPrecision::kF32;
  EmbeddingForm form = EmbeddingForm::kPooled;
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner;
};

// Which occurrences the elements of features pooled by max are of, feature after feature, as
// simurgh/data/argmax_codec.h has them; no bytes where there are no such features. Rows change
// between a pull and its push, and whoever is asked to push need not be who was asked to pull: so
// the trainer keeps what the pull has told, and nobody looks for the largest again.
struct PooledArgmax {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// What a pull tells beside the embeddings.
struct PullAnswer {
  uint32_t row_age_steps = 0;  // Of the oldest row: 0 when all are of now.
  PooledArgmax argmax;         // Of a training pull.
};

// Gradients of the embeddings, likewise.
struct GradientBuffer {
  GradientBuffer(VectorPrecision as, float times, std::span<const std::byte> from,
                 std::shared_ptr<const void> keeper)
      : precision(as), scale(times), bytes(from), owner(std::move(keeper)) {}
  // f32 from a matrix without gaps.
  GradientBuffer(MatrixView<const float> matrix, std::shared_ptr<const void> keeper)
      : bytes(std::as_bytes(matrix.flat())), owner(std::move(keeper)) {}

  // The numbers. Requires f32.
  std::span<const float> floats() const {
    SIMURGH_CHECK(precision == VectorPrecision::kF32);
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
  }

  VectorPrecision precision = VectorPrecision::kF32;
  float scale = 1;  // What they have been multiplied by; above 0.
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  PooledArgmax argmax;  // As the pull of the embeddings told them.
};

// What training needs of the cluster: embeddings for a batch, and a way back for their gradients.
//
// Every call answers exactly once through `done`, on a thread of the port's choosing. `done` must
// not block. Memory stays with its `owner`, which the port keeps until it can no longer touch it:
// this may be a little after `done`. No call retries by itself.
//
// Errors that a later attempt may not see: UNAVAILABLE (the worker is gone: submit again, perhaps
// elsewhere), NOT_FOUND (the reference expired, or its worker restarted: submit again), ABORTED (a
// parameter server is gone; the reference holds), DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED (forward
// buffer full). Anything else is final; DATA_LOSS says that a server has lost rows of this run.
// Threads: all members may be called from any thread.
class EmbeddingPort {
 public:
  virtual ~EmbeddingPort() = default;

  // Hands a batch's ids over. Those that the run waits for, a rank's first `together` steps under
  // way of each purpose, find room in a full forward buffer, too.
  virtual void Submit(std::shared_ptr<const CompactBatch> batch, const SubmitOptions& terms,
                      std::function<void(StatusOr<BatchReference>)> done) = 0;

  // Pooled embeddings, features side by side in their configured order, (B, embedding width). An
  // evaluation pull consumes the reference; a training pull leaves it for Push. Rows are at most
  // terms.row_age_steps old.
  // Requires the target to be as they travel, or pooled f32 where pooled embeddings travel.
  virtual void Pull(BatchReference batch, const PullOptions& terms, EmbeddingBuffer embeddings,
                    std::function<void(StatusOr<PullAnswer>)> done) = 0;

  // Sends gradients (B, embedding width) back; ok once every server has applied them. Repeating a
  // push is harmless: it is applied once. Consumes the reference when ok.
  // Requires the source to be f32 and multiplied by nothing, or as they travel.
  virtual void Push(BatchReference batch, StepId position, GradientBuffer gradients,
                    std::function<void(Status)> done) = 0;

  // The run has failed: calls that are under way need not be waited for, and may fail with
  // CANCELLED, as may all others from now on.
  virtual void Stop() {}
};

// A rank's dense gradients on their way to the servers.
struct DensePush {
  uint64_t run = 0;
  uint32_t rank = 0;
  uint64_t number = 0;                  // Of the rank's pushes, from 0.
  std::vector<uint64_t> base_versions;  // By server, of the weights that the gradients are of.
  float learning_rate = 0;
};

struct DenseVersions {
  std::vector<uint64_t> versions;  // By server: how many pushes made its range of the weights.
  uint64_t gap = 0;  // Of a push: how many others came between its weights and itself, at most.
};

// Dense weights and their optimizer's state where servers own them, each a range of the flat
// weights.
//
// A rank has one push under way at a time, in the order of their numbers. Repeating the last one is
// harmless: a server that has applied it answers and does not apply it.
//
// Calls answer as those of EmbeddingPort. Errors that a later attempt may not see: UNAVAILABLE,
// DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED. DATA_LOSS says that a server does not have what this run
// has given it. Threads: all members may be called from any thread.
class DensePort {
 public:
  virtual ~DensePort() = default;

  // Gives the run its first weights where servers have none yet. All ranks give the same.
  virtual void Start(uint64_t run, const DenseOptimizerConfig& optimizer,
                     std::span<const float> parameters, std::shared_ptr<const void> owner,
                     std::function<void(Status)> done) = 0;

  // The servers' present weights into `parameters`.
  virtual void Pull(uint64_t run, std::span<float> parameters, std::shared_ptr<void> owner,
                    std::function<void(StatusOr<DenseVersions>)> done) = 0;

  // Has the gradients applied; the weights that this made into `parameters`.
  virtual void Push(const DensePush& push, std::span<const float> gradients,
                    std::span<float> parameters, std::shared_ptr<void> owner,
                    std::function<void(StatusOr<DenseVersions>)> done) = 0;
};

}  // namespace simurgh
