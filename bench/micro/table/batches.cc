#include "bench/micro/table/batches.h"

#include "base/hash.h"
#include "base/random.h"
#include "bench/datagen/zipf.h"

namespace simurgh::bench {
namespace {

constexpr double kZipfExponent = 1.05;

}  // namespace

std::string_view NameOf(Distribution distribution) {
  return distribution == Distribution::kUniform ? "uniform" : "zipf";
}

uint64_t IdOf(uint64_t number) { return Mix64(number + 1); }

std::vector<Batch> DrawBatches(Distribution distribution, uint64_t rows, size_t size, size_t count,
                               uint64_t seed) {
  Random random(seed);
  const ZipfSampler sampler(rows, kZipfExponent);
  std::vector<bool> taken(rows);
  // Neighbours in rank must not be neighbours in memory: rank r is row r * step modulo a count
  // that shares no factor with step.
  constexpr uint64_t kStep = 2'654'435'761;  // A prime above any number of rows.
  std::vector<Batch> batches(count);
  for (Batch& batch : batches) {
    while (batch.rows.size() < size) {
      const uint64_t drawn = distribution == Distribution::kZipf
                                 ? sampler.Draw(random) * (kStep % rows) % rows
                                 : random.Below(rows);
      if (taken[drawn]) continue;
      taken[drawn] = true;
      batch.rows.push_back(static_cast<uint32_t>(drawn));
      batch.ids.push_back(IdOf(drawn));
    }
    for (const uint32_t row : batch.rows) taken[row] = false;
  }
  return batches;
}

}  // namespace simurgh::bench
