#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "config/feature_config.h"
#include "data/batch/batch.h"
#include "embedding/pooling.h"

namespace simurgh {

// Masks of raw features for the dense network. Each feature with `mask` appends max_length columns
// to the dense ones: 1 below the sample's true length, else 0. The nn-worker computes them from the
// ids, so no mask is transmitted.
//
// Threads: any; immutable.
class RawMasks {
 public:
  explicit RawMasks(std::span<const FeatureConfig> features);

  size_t width() const { return width_; }  // Columns of all features.

  // Appends the columns to the dense part. Requires a batch with the features. Cost: one pass over
  // the dense values; none without masks.
  void AppendTo(Batch& batch) const;

 private:
  struct Mask {
    size_t feature = 0;
    PoolingRule rule;
  };

  std::vector<Mask> masks_;
  size_t width_ = 0;
};

}  // namespace simurgh
