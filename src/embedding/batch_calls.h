#pragma once

// The arguments and results of a trainer's calls to an embedding worker.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/step_id.h"
#include "config/embedding_form.h"
#include "config/training_config.h"
#include "data/batch/batch.h"
#include "data/batch/encoded_batch.h"
#include "table/partition.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// A batch in the forward buffer of an embedding worker.
struct BatchReference {
  uint32_t worker = 0;              // Index of the worker.
  uint64_t worker_incarnation = 0;  // Identifies the worker's process.
  uint64_t number = 0;
  uint64_t trace = 0;  // Identifies the batch in logs and errors of all processes; 0: none.
};

// The ids of a batch, and their bytes if EmbeddingPort::Encode has made them.
struct SubmittedIds {
  SubmittedIds(std::shared_ptr<const CompactBatch> of,  // NOLINT(google-explicit-constructor)
               std::shared_ptr<const EncodedBatch> as = nullptr)
      : batch(std::move(of)), encoded(std::move(as)) {}

  std::shared_ptr<const CompactBatch> batch;
  std::shared_ptr<const EncodedBatch> encoded;
};

// The rank of a submitted batch, and when that rank needs it.
struct SubmitOptions {
  static constexpr uint32_t kMaxLookahead = 64;

  LookupMode mode = LookupMode::kTrain;
  uint64_t run = 0;
  uint32_t rank = 0;
  uint64_t step = 0;  // Counts the rank's batches of this mode, in the order of their use.
  // Number of the rank's first pending steps that must be pulled before the first one can end: 1 to
  // kMaxLookahead.
  uint32_t lookahead_steps = 1;
};

struct PullOptions {
  LookupMode mode = LookupMode::kTrain;
  StepId step_id;
  NeededPushes needed;  // Awaited steps: training only.
  // Maximum age of cached rows, in steps since a pull of the same rank got them. Training only.
  uint32_t row_age_steps = 0;
};

// Memory for the embeddings of a batch: its samples' vectors in the format of VectorCodec, or the
// rows of its ids in the format of RowCodec. Starts at a multiple of 4 bytes.
struct EmbeddingBuffer {
  EmbeddingBuffer(VectorPrecision as, std::span<std::byte> to, std::shared_ptr<void> keeper)
      : precision(as), bytes(to), owner(std::move(keeper)) {}
  // Requires a matrix without gaps.
  EmbeddingBuffer(MatrixView<float> matrix, std::shared_ptr<void> keeper)
      : bytes(std::as_writable_bytes(matrix.flat())), owner(std::move(keeper)) {}

  // Requires f32.
  std::span<float> floats() const {
    SIMURGH_CHECK(precision == VectorPrecision::kF32);
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
  }

  VectorPrecision precision = VectorPrecision::kF32;
  EmbeddingForm form = EmbeddingForm::kPooled;
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner;
};

inline constexpr size_t kMaxArgmaxBytes = 3;  // Most bytes of one element.

// The argmax of features pooled by max, as services/embedding_worker/README.md describes; empty
// without such features. Rows may change between pull and push, and another worker may get the
// push, so the trainer keeps the argmax of the pull.
struct PooledArgmax {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

struct PullAnswer {
  uint32_t row_age_steps = 0;  // Age of the oldest row; 0 if no row is from a cache.
  PooledArgmax argmax;         // Training only.
};

// Gradients of a batch's embeddings: of its samples' vectors in the format of VectorCodec, or of
// its rows, in f32 and the order of RowCodec.
struct GradientBuffer {
  GradientBuffer(VectorPrecision as, float times, std::span<const std::byte> from,
                 std::shared_ptr<const void> keeper)
      : precision(as), scale(times), bytes(from), owner(std::move(keeper)) {}
  // Requires a matrix without gaps.
  GradientBuffer(MatrixView<const float> matrix, std::shared_ptr<const void> keeper)
      : bytes(std::as_bytes(matrix.flat())), owner(std::move(keeper)) {}

  // Requires f32.
  std::span<const float> floats() const {
    SIMURGH_CHECK(precision == VectorPrecision::kF32);
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
  }

  VectorPrecision precision = VectorPrecision::kF32;
  EmbeddingForm form = EmbeddingForm::kPooled;
  float scale = 1;  // The scale that the gradients were multiplied by; above 0.
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  PooledArgmax argmax;  // The argmax that the pull of the embeddings returned.
};

}  // namespace simurgh
