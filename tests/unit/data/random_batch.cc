#include "tests/unit/data/random_batch.h"

#include <vector>

namespace simurgh::testing {
namespace {

struct FeatureKind {
  uint64_t ids = 1;      // In use.
  uint64_t max_ids = 1;  // Per sample; 0: always one.
  uint64_t pattern = 0;  // 0 wild, 1 small, 2 ascending.
  bool weighted = false;
};

FeatureKind RandomKind(Random& random) {
  const std::vector<uint64_t> counts = {1, 2, 3, 40, 70, 200, 5'000, 1'000'000};
  return {.ids = counts[random.Below(counts.size())],
          .max_ids = random.Below(2) == 0 ? 0 : 1 + random.Below(6),
          .pattern = random.Below(3),
          .weighted = random.Below(4) == 0};
}

uint64_t RandomId(Random& random, const FeatureKind& kind, uint64_t sample) {
  // The square makes small ranks frequent.
  const double u = random.Uniform();
  const auto rank = static_cast<uint64_t>(u * u * static_cast<double>(kind.ids));
  if (kind.pattern == 0) return Mix64(rank + 1);
  if (kind.pattern == 1) return rank;
  return (uint64_t{1} << 60) + sample * 1'000 + rank % 1'000;
}

}  // namespace

CompactBatch RandomBatch(Random& random) {
  const size_t features = random.Below(6);
  std::vector<uint32_t> lists;
  uint32_t used = 0;
  for (size_t f = 0; f < features; ++f) {
    const bool is_new = used == 0 || random.Below(4) != 0;
    lists.push_back(is_new ? used++ : static_cast<uint32_t>(random.Below(used)));
  }
  std::vector<FeatureKind> kinds;
  for (size_t f = 0; f < features; ++f) kinds.push_back(RandomKind(random));
  BatchBuilder builder(lists, 0);
  const uint64_t samples = random.Below(4) == 0 ? random.Below(4) : random.Below(600);
  for (uint64_t b = 0; b < samples; ++b) {
    for (size_t f = 0; f < features; ++f) {
      const uint64_t ids = kinds[f].max_ids == 0 ? 1 : random.Below(kinds[f].max_ids + 1);
      for (uint64_t i = 0; i < ids; ++i) {
        const auto weight = kinds[f].weighted ? static_cast<float>(random.Below(9)) - 2.0F : 1.0F;
        builder.AddId(f, RandomId(random, kinds[f], b), weight);
      }
    }
    builder.EndSample();
  }
  return *builder.Build()->sparse;
}

}  // namespace simurgh::testing
