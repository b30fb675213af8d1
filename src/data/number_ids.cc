#include "data/number_ids.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "simurgh/base/check.h"

namespace simurgh {

void NumberIds(std::span<const std::span<const uint64_t>> ids, IdIndex& index,
               CompactBatch& batch) {
  SIMURGH_CHECK_EQ(ids.size(), batch.feature_count());
  std::vector<uint32_t> features(ids.size());  // List after list.
  std::iota(features.begin(), features.end(), 0U);
  std::sort(features.begin(), features.end(), [&](uint32_t one, uint32_t other) {
    return std::pair(batch.list_of(one), one) < std::pair(batch.list_of(other), other);
  });
  batch.ids.clear();
  batch.occurrences.resize(batch.offsets.back());
  auto next = features.begin();
  for (size_t list = 0; list < batch.list_count(); ++list) {
    index.Clear();
    for (; next != features.end() && batch.list_of(*next) == list; ++next) {
      const size_t first = batch.offsets[size_t{*next} * batch.batch_size];
      index.Number(ids[*next], std::span(batch.occurrences).subspan(first, ids[*next].size()));
    }
    batch.ids.insert(batch.ids.end(), index.ids().begin(), index.ids().end());
    batch.unique_ends[list] = static_cast<uint32_t>(batch.ids.size());
  }
}

}  // namespace simurgh
