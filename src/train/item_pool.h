#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "config/feature_config.h"
#include "data/batch/batch.h"
#include "data/batch/batch_builder.h"

namespace simurgh {

// Items of an item file, from which training draws uniform negatives.
//
// Source: Yang et al., "Mixed negative sampling for learning two-tower neural networks in
// recommendations", WWW 2020 companion.
// Threads: one owner.
class ItemPool {
 public:
  // Reads the files, one row an item. data: their format, with all columns of the training data, of
  // which they may lack those that only the user's tower reads.
  // Errors: those of OpenBatchReader; INVALID_ARGUMENT for files without a row.
  // Cost: reads the files, and keeps the ids and dense values of all items.
  static StatusOr<ItemPool> Read(const DataConfig& data, const std::vector<FeatureConfig>& features,
                                 const std::vector<std::string>& files);

  size_t size() const { return items_; }

  // Returns draw n of a step, below size(), each with the probability 1 / size(). It depends on the
  // seed, the step and n alone.
  size_t Draw(uint64_t seed, uint64_t step, uint64_t n) const;

  // Appends the items to a batch of the training data, as its uniform negatives. They have labels
  // NaN, weight 0 and no group.
  // Errors: INVALID_ARGUMENT beyond the limits of a batch.
  Status AddTo(Batch& batch, const std::vector<size_t>& items);

 private:
  explicit ItemPool(BatchBuilder builder, bool is_weighted)
      : builder_(std::move(builder)), is_weighted_(is_weighted) {}

  std::vector<Batch> parts_;
  std::vector<size_t> begins_;  // First item of each part.
  size_t items_ = 0;
  BatchBuilder builder_;
  bool is_weighted_ = false;  // Batches have the samples' weights.
};

}  // namespace simurgh
