#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "simurgh/config/feature_config.h"
#include "simurgh/data/batch.h"
#include "simurgh/data/pooling.h"

namespace simurgh {

// Tells the dense network where raw features end. Of each feature that asks for it, in their order,
// max_length columns follow the dense ones of the data: 1 for a place that the sample fills, 0 from
// its true length on. Their sum is the true length.
//
// The nn-worker makes them of the batch's ids, which it has: nothing of them travels, and it is all
// the same where batches come from and what they are for.
// Threads: any, once constructed.
class RawMasks {
 public:
  explicit RawMasks(std::span<const FeatureConfig> features);

  size_t width() const { return width_; }  // Columns of all features.

  // Appends the columns to the dense part. Requires the batch to have the features.
  // Cost: one pass over the dense values; none where no feature asks.
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
