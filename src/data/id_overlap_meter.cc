#include "simurgh/data/id_overlap_meter.h"

#include <algorithm>

#include "simurgh/base/check.h"

namespace simurgh {

void IdOverlapMeter::Add(const CompactBatch& batch) {
  SIMURGH_CHECK_EQ(batch.feature_count(), features_.size());
  const size_t samples = std::min<size_t>(batch.batch_size, kSamplesOfBatch);
  for (size_t f = 0; f < features_.size(); ++f) {
    const FeatureView view = batch.feature(f);
    for (size_t i = 0; i < samples; ++i) {
      const auto occurrences = view.sample(i * batch.batch_size / samples);
      for (size_t o = 0; o < occurrences.size(); ++o) {
        // A sample counts once, however often it has the id.
        const auto before = occurrences.first(o);
        if (std::ranges::find(before, occurrences[o]) != before.end()) continue;
        Count(view.ids[occurrences[o]], features_[f]);
      }
    }
  }
  samples_ += samples;
}

void IdOverlapMeter::Count(uint64_t id, Feature& feature) {
  ++feature.counts[id];
  if (feature.counts.size() > kCounters) TakeMedianOff(feature);
}

void IdOverlapMeter::TakeMedianOff(Feature& feature) {
  std::vector<uint64_t> counts;
  counts.reserve(feature.counts.size());
  for (const auto& [id, count] : feature.counts) counts.push_back(count);
  const auto middle = counts.begin() + static_cast<ptrdiff_t>(counts.size() / 2);
  std::ranges::nth_element(counts, middle);
  const uint64_t median = *middle;
  absl::erase_if(feature.counts, [median](auto& entry) {
    if (entry.second <= median) return true;
    entry.second -= median;
    return false;
  });
}

std::vector<double> IdOverlapMeter::Probabilities() const {
  std::vector<double> shares;
  for (const Feature& feature : features_) {
    uint64_t most = 0;
    for (const auto& [id, count] : feature.counts) most = std::max(most, count);
    shares.push_back(samples_ == 0 ? 0 : static_cast<double>(most) / static_cast<double>(samples_));
  }
  return shares;
}

}  // namespace simurgh
