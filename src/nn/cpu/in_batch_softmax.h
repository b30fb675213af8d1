#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "config/model_config.h"
#include "tensor/matrix_view.h"

// The loss of retrieval: a sample's item competes with the other items of its batch.
//
// Sample i of B has a user's vector u_i, an item's vector v_i and a label y_i. Scores are
// s_ij = u_i v_j / temperature. The sample's loss is
//   y_i weight_i (log sum_j exp(s_ij) - s_ii).
// The sum leaves out other samples of the same item, whose item's inputs are equal bit by bit.
// Equal inputs are a safer sign than equal vectors, which dropout and the rounding of products
// change. A sample with label 0, or without a known label (NaN), has no loss, but its item still
// competes.
//
// Source: Yi et al., "Sampling-bias-corrected neural modeling for large corpus item
// recommendations", RecSys 2019, section 3, without the correction.
namespace simurgh::cpu {

// Floats of scores that are in memory at a time, 4 MiB, for batches of up to this many samples. A
// larger batch has a row of scores at a time.
inline constexpr size_t kScoreFloats = size_t{1} << 20;

// Memory of a batch's loss, kept from batch to batch.
//
// Threads: one owner.
class InBatchSoftmax {
 public:
  // task: of this loss. block_floats: see kScoreFloats; at least 1.
  explicit InBatchSoftmax(const TaskConfig& task, size_t block_floats = kScoreFloats)
      : task_(task), block_floats_(block_floats) {}

  // Returns the mean over samples of the weighted losses, times the task's weight.
  //
  // vectors: (B, 2 D), the user's and then the item's of each sample. labels: (B), then, if the
  // samples have weights, the factors (B) of their losses. predictions: (B), overwritten with s_ii.
  // gradient: (B, 2 D), overwritten with the derivative of the summed loss, divided by
  // gradient_divisor. item_inputs: one or more matrices (B, any), of which the items' vectors are
  // computed.
  // Errors: INTERNAL when oneDNN fails. Throws std::bad_alloc.
  // Cost: three products of (B, D) with (B, D).
  StatusOr<double> Loss(MatrixView<const float> vectors,
                        std::span<const MatrixView<const float>> item_inputs,
                        std::span<const float> labels, std::span<float> predictions,
                        uint64_t gradient_divisor, MatrixView<float> gradient);

 private:
  TaskConfig task_;
  size_t block_floats_;
  AlignedBuffer scores_;
};

}  // namespace simurgh::cpu
