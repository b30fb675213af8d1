#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "config/model_config.h"
#include "nn/dense_network.h"
#include "nn/in_batch_items.h"
#include "nn/item_frequency.h"
#include "tensor/matrix_view.h"

// The loss of retrieval: a sample's item competes with the other items of the global batch.
//
// Sample i of the global batch has a user's vector u_i, an item's vector v_i and a label y_i. Its
// score of item j is s_ij = u_i v_j / temperature - log p_j. The sample's loss is
//   y_i weight_i (log sum_j exp(s_ij) - s_ii).
// With the correction log_q, p_j is the expected number of occurrences of item j among the items of
// a step: by ItemFrequency, plus RankStep::uniform_rate. So the sum estimates that over all items,
// in which frequent items count no more than others. Without a correction, p_j is 1.
//
// The sum leaves out other samples of i's item, and of any item that i's user has in a sample of
// the global batch with a label above 0. Samples of one item, and of one user, have equal keys; see
// nn/two_towers.h. A sample with label 0, or without a known label (NaN), has no loss, but its item
// still competes.
//
// Source: Yi et al., "Sampling-bias-corrected neural modeling for large corpus item
// recommendations", RecSys 2019, section 3.
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

  // Returns the mean over the rank's samples of the weighted losses, times the task's weight. A
  // rank without samples calls, too, if step.gather is set.
  //
  // vectors: (B, 2 D), the user's and then the item's of each sample. labels: (B), then, if the
  // samples have weights, the factors (B) of their losses. step: its keys, gather and sum_floats
  // are used; the last step.uniform_negatives samples are only items. state: of ItemFrequency;
  // empty without the correction log_q. predictions: (B), overwritten with u_i v_i / temperature, 0
  // of uniform negatives. gradient: (B, 2 D), overwritten with the derivative of the loss summed
  // over the global batch, divided by gradient_divisor.
  // Errors: INTERNAL when oneDNN fails; those of gather and sum_floats. Throws std::bad_alloc.
  // Cost: three products of (B, D) with (G, D), for G samples of the global batch. Ranks gather
  // their items' vectors, and sum G gradients of D floats, padded to the longest batch of a rank.
  StatusOr<double> Loss(MatrixView<const float> vectors, std::span<const float> labels,
                        const RankStep& step, std::span<const float> state,
                        std::span<float> predictions, uint64_t gradient_divisor,
                        MatrixView<float> gradient);

  // Writes the frequencies after the last step to the state.
  void Commit(std::span<float> state) { frequency_.Commit(state); }
  // Drops those of a step that is not applied.
  void Drop() { frequency_.Drop(); }

 private:
  // Returns log p of each item.
  std::vector<float> Corrections(const InBatchItems& all, const RankStep& step,
                                 std::span<const float> state);

  TaskConfig task_;
  size_t block_floats_;
  AlignedBuffer scores_;
  AlignedBuffer gathered_;  // Vectors of all ranks' items.
  AlignedBuffer summed_;    // Their gradients.
  ItemFrequency frequency_;
};

}  // namespace simurgh::cpu
