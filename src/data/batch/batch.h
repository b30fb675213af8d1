#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "data/batch/data_position.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// Limits of one batch.
inline constexpr size_t kMaxBatchSamples = 65'535;
inline constexpr size_t kMaxBatchOccurrences = 10'000'000;
inline constexpr size_t kMaxBatchCells = size_t{1} << 26;  // Samples times features.

// One feature of a batch, as a view into a CompactBatch.
struct FeatureView {
  std::span<const uint64_t> ids;  // (U) distinct ids of the list, by first appearance.
  size_t first_id = 0;            // Index of ids[0] among the batch's ids.
  std::span<const uint32_t>
      occurrences;                 // (N) indexes into ids; duplicates within a sample are kept.
  std::span<const float> weights;  // (N) or empty: all 1.
  std::span<const uint32_t>
      offsets;  // (B + 1) sample b owns [offsets[b], offsets[b+1]) - offsets[0].

  // Returns the occurrences of one sample.
  std::span<const uint32_t> sample(size_t index) const {
    return occurrences.subspan(offsets[index] - offsets[0], offsets[index + 1] - offsets[index]);
  }
};

// The ID features of B samples: lists of distinct ids, one a feature or shared by features of one
// table, and per occurrence an index into the feature's list. Flat arrays over all features:
//
//   ids          (sum of U)   list after list
//   unique_ends  (L)          end of each list in ids
//   lists        (F or none)  the list of each feature, numbered by first use; none: one each
//   occurrences  (sum of N)   feature after feature, sample after sample
//   offsets      (F * B + 1)  feature f, sample b starts at occurrence offsets[f * B + b]
//   weights      (sum of N, or none: all 1)  of the occurrences
//
// Invariant (checked by Validate, kept by BatchBuilder): offsets ascend from 0 to the number of
// occurrences, unique_ends ascend to the number of ids, every occurrence is below its list's U,
// weights are finite, every list has a feature. BatchBuilder also makes the ids of a list distinct;
// a repeated id only costs speed.
// Threads: immutable once built.
struct CompactBatch {
  uint32_t batch_size = 0;
  std::vector<uint64_t> ids;
  std::vector<uint32_t> occurrences;
  std::vector<uint32_t> offsets;
  std::vector<uint32_t> unique_ends;
  std::vector<uint32_t> lists = {};
  std::vector<float> weights = {};

  size_t feature_count() const { return lists.empty() ? unique_ends.size() : lists.size(); }
  size_t list_count() const { return unique_ends.size(); }
  size_t list_of(size_t feature) const { return lists.empty() ? feature : lists[feature]; }

  // Returns the ids of one list. Requires valid unique_ends and index < list_count().
  std::span<const uint64_t> list(size_t index) const;

  // Requires a valid batch and index < feature_count().
  FeatureView feature(size_t index) const;

  // Checks the invariant, as required for received batches.
  // Errors: INVALID_ARGUMENT naming the feature, the value and the limit.
  Status Validate() const;
};

// The part of a batch that never leaves the nn-worker.
struct DenseBatch {
  size_t batch_size = 0;
  size_t width = 0;
  std::vector<float> values;  // (B, width)
  // Shape: (B, tasks), see LossConfig; then, if the samples have weights, (B) of at least 0.
  std::vector<float> labels;
  size_t tasks = 1;  // Labels per sample.
  // Shape: (B). For evaluations: samples with equal numbers above 0 are a group, and those with 0
  // are in none. Empty: all are 0.
  std::vector<uint64_t> groups;
  // Shape: (B) each, or empty. Hashes of the inputs of a two-tower model's two vectors; see
  // nn/two_towers.h.
  std::vector<uint64_t> user_keys;
  std::vector<uint64_t> item_keys;
  // The last samples are items that were drawn as negatives: without a user, with labels NaN.
  size_t uniform_negatives = 0;

  // Returns the factors of the samples' losses and in metrics; empty: each is 1.
  std::span<const float> weights() const { return std::span(labels).subspan(batch_size * tasks); }

  MatrixView<const float> matrix() const { return {values.data(), batch_size, width}; }
};

// B samples. The ids are shared with calls that may send them again.
struct Batch {
  std::shared_ptr<const CompactBatch> sparse;
  DenseBatch dense;
  // Samples of all ranks at this step; 0: there is one rank.
  uint64_t global_samples = 0;
  bool ends_epoch = false;  // The epoch's last batch; set while training.
  bool idle = false;        // A stream has no records for a batch yet, see RecordStream.

  bool checkpoint_before = false;  // The model is saved before this batch's step.
  ShareProgress progress;          // Progress after this batch.

  size_t size() const { return dense.batch_size; }
};

}  // namespace simurgh
