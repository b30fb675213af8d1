#include "bench/micro/batch/samples.h"

#include <string>

#include "base/hash.h"
#include "base/random.h"
#include "bench/datagen/zipf.h"

namespace simurgh::bench {

std::vector<uint64_t> DrawSamples(std::string_view distribution, size_t samples, double missing,
                                  uint64_t seed) {
  const auto cardinalities = Generator::Create({})->cardinalities();
  const bool uniform = distribution == "uniform";
  const double exponent =
      uniform ? 1.0 : std::stod(std::string(distribution.substr(sizeof("zipf") - 1)));
  std::vector<ZipfSampler> samplers;
  for (const uint64_t cardinality : cardinalities) samplers.emplace_back(cardinality, exponent);
  Random random(seed);
  std::vector<uint64_t> ids;
  ids.reserve(samples * kBenchFeatures);
  for (size_t b = 0; b < samples; ++b) {
    for (size_t f = 0; f < kBenchFeatures; ++f) {
      if (random.Uniform() < missing) {
        ids.push_back(kNoId);
        continue;
      }
      const uint64_t rank = uniform ? random.Below(cardinalities[f]) : samplers[f].Draw(random);
      ids.push_back(Mix64((f + 1) << 40 | rank));
    }
  }
  return ids;
}

}  // namespace simurgh::bench
