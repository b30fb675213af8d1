#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh {

// Limits of one batch; a batch beyond them is refused.
inline constexpr size_t kMaxBatchSamples = 65'535;
inline constexpr size_t kMaxBatchOccurrences = 10'000'000;

// One feature of a batch, as a view into a CompactBatch.
struct FeatureView {
  std::span<const uint64_t> ids;  // (U) distinct, in order of first appearance.
  std::span<const uint32_t>
      occurrences;  // (N) indexes into ids; duplicates within a sample are kept.
  std::span<const uint32_t>
      offsets;  // (B + 1) sample b owns [offsets[b], offsets[b+1]) - offsets[0].

  // The occurrences of one sample.
  std::span<const uint32_t> sample(size_t index) const {
    return occurrences.subspan(offsets[index] - offsets[0], offsets[index + 1] - offsets[index]);
  }
};

// The ID features of B samples: every feature's distinct ids once, and per occurrence an index into
// them. Three flat arrays over all features, so that a batch travels as three segments:
//
//   ids          (sum of U)  feature after feature
//   occurrences  (sum of N)  feature after feature, sample after sample
//   offsets      (F * B + 1) row pointers into occurrences; feature f, sample b starts at offsets[f
//   * B + b] unique_ends  (F)         end of each feature's range in ids
//
// Invariant (checked by Validate, kept by BatchBuilder): offsets ascend from 0 to the number of
// occurrences, unique_ends ascend to the number of ids, every occurrence is below its feature's U.
// That the ids of a feature are distinct is the builder's promise; a repeated id costs speed, and
// is harmless. Threads: immutable once built.
struct CompactBatch {
  uint32_t batch_size = 0;
  std::vector<uint64_t> ids;
  std::vector<uint32_t> occurrences;
  std::vector<uint32_t> offsets;
  std::vector<uint32_t> unique_ends;

  size_t feature_count() const { return unique_ends.size(); }

  // Requires a valid batch and index < feature_count().
  FeatureView feature(size_t index) const;

  // Checks every invariant; what a received batch must pass before use.
  // Errors: INVALID_ARGUMENT naming the feature, the value and the limit.
  Status Validate() const;
};

}  // namespace simurgh
