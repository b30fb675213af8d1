#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simurgh/data/batch_reader.h"
#include "simurgh/feature/raw_masks.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Finds labels of which all samples have the same value.
//
// Threads: one at a time.
class LabelCounts {
 public:
  // columns: names of the labels.
  explicit LabelCounts(std::vector<std::string> columns)
      : columns_(std::move(columns)), differs_(columns_.size()) {}

  // Requires a sample.
  void Add(const DenseBatch& batch);

  // A warning for each label of which all samples have the same value; none without samples.
  std::vector<std::string> Warnings() const;

 private:
  std::vector<std::string> columns_;
  // By column.
  std::vector<float> first_;  // The first sample's.
  std::vector<bool> differs_;
  uint64_t samples_ = 0;
};

// Wraps a reader: appends the masks of raw features and counts the bad rows that it skips.
//
// labels: counts the labels; may be null. The reader's destructor, at the end of each epoch, logs
// their warnings.
// Lifetime: all but the reader outlive the result.
std::unique_ptr<BatchReader> NewJobReader(std::unique_ptr<BatchReader> reader,
                                          const RawMasks& masks, Counter& skipped_rows,
                                          LabelCounts* labels);

}  // namespace simurgh
