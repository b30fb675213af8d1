#include "nn/item_frequency.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace simurgh {

size_t ItemFrequency::SlotOf(uint64_t item, size_t hash) {
  return hash * kSlots + Mix64(item + 0x9e3779b97f4a7c15ULL * (hash + 1)) % kSlots;
}

std::vector<ItemFrequency::Touched> ItemFrequency::TouchedBy(std::span<const uint64_t> items) {
  std::vector<size_t> indices;
  indices.reserve(kHashes * items.size());
  for (const uint64_t item : items) {
    for (size_t hash = 0; hash < kHashes; ++hash) indices.push_back(SlotOf(item, hash));
  }
  std::ranges::sort(indices);
  std::vector<Touched> touched;
  for (const size_t index : indices) {
    if (touched.empty() || touched.back().index != index) touched.push_back({.index = index});
    ++touched.back().count;
  }
  return touched;
}

void ItemFrequency::Observe(uint64_t step, std::span<const uint64_t> items,
                            std::span<const float> state) {
  SIMURGH_CHECK_EQ(state.size(), kStateSize);
  pending_.clear();
  for (const Touched& touched : TouchedBy(items)) {
    Slot slot = Slot::Of(state.data(), touched.index);
    for (size_t i = 0; i < touched.count; ++i) slot.Occur(NumberOf(step));
    pending_.push_back({touched.index, slot});
  }
}

double ItemFrequency::Of(uint64_t item, std::span<const float> state) const {
  float gap = 0;
  for (size_t hash = 0; hash < kHashes; ++hash) {
    const size_t index = SlotOf(item, hash);
    const auto found = std::ranges::lower_bound(pending_, index, {}, &Pending::index);
    const bool is_pending = found != pending_.end() && found->index == index;
    const float own = is_pending ? found->slot.gap : state[index];
    if (own == 0) return 0;  // No item of the slot has occurred.
    gap = std::max(gap, own);
  }
  return FrequencyOf(gap);
}

void ItemFrequency::Commit(std::span<float> state) {
  for (const Pending& pending : pending_) pending.slot.Write(state.data(), pending.index);
  pending_.clear();
}

}  // namespace simurgh
