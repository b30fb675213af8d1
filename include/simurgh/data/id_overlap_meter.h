#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "simurgh/data/compact_batch.h"

namespace simurgh {

// Estimates the collision probability of each feature's ids while batches pass: of all ids, the
// largest share of samples that hold one. It bounds how often the rows of a batch are those of
// another one, and with it what staleness costs.
//
// Counts the ids of at most kSamplesOfBatch samples of a batch, evenly spaced, in kCounters places
// a feature, by the algorithm of Misra and Gries: when all are taken, their median is taken off
// each, and those that are then empty are free. A share is never above the counted samples' own,
// and below it by no more than 2 / kCounters times the mean number of ids of a sample.
//
// Source: the probability, Lian et al., "Persia", KDD 2022; the counters, Misra and
// Gries, 1982, as batched by Anderson et al., "A High-Performance Algorithm for Identifying
// Frequent Items in Data Streams", IMC 2017. Threads: one owner. Cost: some 64 KiB a feature, some
// microseconds a feature and batch.
class IdOverlapMeter {
 public:
  static constexpr size_t kSamplesOfBatch = 64;
  static constexpr size_t kCounters = 2'048;

  explicit IdOverlapMeter(size_t features) : features_(features) {}

  // batch: of as many features.
  void Add(const CompactBatch& batch);

  // By feature; 0 before the first batch.
  std::vector<double> Probabilities() const;

  uint64_t counted_samples() const { return samples_; }

 private:
  struct Feature {
    absl::flat_hash_map<uint64_t, uint64_t> counts;  // Of at most kCounters ids.
  };

  static void Count(uint64_t id, Feature& feature);
  static void TakeMedianOff(Feature& feature);

  std::vector<Feature> features_;
  uint64_t samples_ = 0;
};

}  // namespace simurgh
