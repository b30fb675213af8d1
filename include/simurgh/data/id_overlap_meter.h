#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "simurgh/data/batch.h"

namespace simurgh {

// Estimates the overlap probability of each feature's ids: the largest share of samples that
// contain one id. It bounds how often two batches use the same rows, and so the cost of staleness.
//
// Counts the ids of up to kSamplesOfBatch evenly spaced samples per batch in kCounters counters per
// feature: when all are used, the median is subtracted from each, and counters at 0 become free. A
// share is at most the true share of the counted samples, and less by at most 2 / kCounters times
// the mean number of ids per sample.
//
// Threads: one owner. Cost: about 64 KiB per feature; some microseconds per feature and batch.
// Source: the probability: Lian et al., "Persia", KDD 2022; the counters: Misra and Gries, 1982, in
// batches as in Anderson et al., "A High-Performance Algorithm for Identifying Frequent Items in
// Data Streams", IMC 2017.
class IdOverlapMeter {
 public:
  static constexpr size_t kSamplesOfBatch = 64;
  static constexpr size_t kCounters = 2'048;

  explicit IdOverlapMeter(size_t features) : counts_(features) {}

  // Requires a batch of the constructor's number of features.
  void Add(const CompactBatch& batch);

  // By feature; 0 before the first batch.
  std::vector<double> Probabilities() const;

  uint64_t counted_samples() const { return samples_; }

 private:
  using Counts = absl::flat_hash_map<uint64_t, uint64_t>;  // By id, up to kCounters.

  static void SubtractMedian(Counts& counts);

  std::vector<Counts> counts_;  // By feature.
  uint64_t samples_ = 0;
};

}  // namespace simurgh
