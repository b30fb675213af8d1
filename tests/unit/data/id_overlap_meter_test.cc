#include "simurgh/data/id_overlap_meter.h"

#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"

namespace simurgh {
namespace {

// Ids of a sample, with repetitions.
using Sample = std::vector<uint64_t>;

CompactBatch BatchOf(const std::vector<std::vector<Sample>>& features) {
  CompactBatch batch{.batch_size = static_cast<uint32_t>(features[0].size())};
  batch.offsets.push_back(0);
  for (const auto& samples : features) {
    std::map<uint64_t, uint32_t> numbers;
    for (const Sample& sample : samples) {
      for (const uint64_t id : sample) {
        const auto [place, is_new] = numbers.try_emplace(id, numbers.size());
        if (is_new) batch.ids.push_back(id);
        batch.occurrences.push_back(place->second);
      }
      batch.offsets.push_back(static_cast<uint32_t>(batch.occurrences.size()));
    }
    batch.unique_ends.push_back(static_cast<uint32_t>(batch.ids.size()));
  }
  REQUIRE(batch.Validate().ok());
  return batch;
}

// All ids of all samples.
class BruteForce {
 public:
  void Add(const std::vector<Sample>& samples) {
    for (const Sample& sample : samples) {
      for (const uint64_t id : std::set<uint64_t>(sample.begin(), sample.end())) ++counts_[id];
    }
    samples_ += samples.size();
  }
  double Probability() const {
    uint64_t most = 0;
    for (const auto& [id, count] : counts_) most = std::max(most, count);
    return static_cast<double>(most) / static_cast<double>(samples_);
  }

 private:
  std::map<uint64_t, uint64_t> counts_;
  uint64_t samples_ = 0;
};

TEST_CASE("overlap probabilities agree with an exact count, within the bound") {
  const uint64_t seed = GENERATE(1, 2, 3);
  CAPTURE(seed);
  Random random(seed);
  // Ids of a sample, and from how many: few, skewed over many, all different, none at all.
  const auto draw = [&](size_t feature) -> Sample {
    switch (feature) {
      case 0:
        return {random.Below(3)};
      case 1: {
        const double u = random.Uniform();
        return {static_cast<uint64_t>(1e6 * u * u * u * u * u * u)};
      }
      case 2:
        return {random(), random()};
      case 3:
        return {5, 5, random.Below(10)};  // Every sample has it, most of them twice.
      default:
        return {};
    }
  };
  constexpr size_t kFeatures = 5;
  IdOverlapMeter meter(kFeatures);
  CHECK(meter.Probabilities() == std::vector<double>(kFeatures));
  std::vector<BruteForce> exact(kFeatures);
  for (int b = 0; b < 400; ++b) {
    std::vector<std::vector<Sample>> batch(kFeatures);
    for (size_t f = 0; f < kFeatures; ++f) {
      for (size_t s = 0; s < IdOverlapMeter::kSamplesOfBatch; ++s) batch[f].push_back(draw(f));
      exact[f].Add(batch[f]);
    }
    meter.Add(BatchOf(batch));
  }
  CHECK(meter.counted_samples() == 400 * IdOverlapMeter::kSamplesOfBatch);
  const std::vector<double> measured = meter.Probabilities();
  const double ids_of_sample[kFeatures] = {1, 1, 2, 3, 0};
  for (size_t f = 0; f < kFeatures; ++f) {
    CAPTURE(f, measured[f], exact[f].Probability());
    CHECK(measured[f] <= exact[f].Probability());
    CHECK(measured[f] >=
          exact[f].Probability() - 2.0 / IdOverlapMeter::kCounters * ids_of_sample[f]);
  }
  CHECK(measured[3] == 1);
  CHECK(measured[4] == 0);
}

TEST_CASE("of a large batch, samples from all over it are counted") {
  // The first half has one id, the second another.
  std::vector<Sample> samples;
  for (uint64_t s = 0; s < 1000; ++s) samples.push_back({s / 500});
  IdOverlapMeter meter(1);
  meter.Add(BatchOf({samples}));
  CHECK(meter.counted_samples() == IdOverlapMeter::kSamplesOfBatch);
  CHECK(meter.Probabilities()[0] == 0.5);
  meter.Add(BatchOf({{{7}}}));  // A batch of one sample.
  CHECK(meter.counted_samples() == IdOverlapMeter::kSamplesOfBatch + 1);
}

}  // namespace
}  // namespace simurgh
