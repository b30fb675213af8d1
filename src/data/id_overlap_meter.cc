#include "simurgh/data/id_overlap_meter.h"

#include <algorithm>

#include "simurgh/base/check.h"

namespace simurgh {

void IdOverlapMeter::Add(const CompactBatch& batch) {
  SIMURGH_CHECK_EQ(batch.feature_count(), counts_.size());
  const size_t samples = std::min<size_t>(batch.batch_size, kSamplesOfBatch);
  for (size_t f = 0; f < counts_.size(); ++f) {
    const FeatureView view = batch.feature(f);
    for (size_t i = 0; i < samples; ++i) {
      const auto occurrences = view.sample(i * batch.batch_size / samples);
      for (size_t o = 0; o < occurrences.size(); ++o) {
        // A sample counts once, however often it has the id.
        const auto before = occurrences.first(o);
        if (std::ranges::find(before, occurrences[o]) != before.end()) continue;
        ++counts_[f][view.ids[occurrences[o]]];
        if (counts_[f].size() > kCounters) SubtractMedian(counts_[f]);
      }
    }
  }
  samples_ += samples;
}

void IdOverlapMeter::SubtractMedian(Counts& counts) {
  std::vector<uint64_t> sorted;
  sorted.reserve(counts.size());
  for (const auto& [id, count] : counts) sorted.push_back(count);
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  absl::erase_if(counts, [median = *middle](auto& entry) {
    if (entry.second <= median) return true;
    entry.second -= median;
    return false;
  });
}

std::vector<double> IdOverlapMeter::Probabilities() const {
  std::vector<double> shares;
  for (const Counts& counts : counts_) {
    uint64_t most = 0;
    for (const auto& [id, count] : counts) most = std::max(most, count);
    shares.push_back(samples_ == 0 ? 0 : static_cast<double>(most) / static_cast<double>(samples_));
  }
  return shares;
}

}  // namespace simurgh
