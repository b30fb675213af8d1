#include "nn/item_frequency.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace simurgh {
namespace {

constexpr size_t kCells = ItemFrequency::kHashes * ItemFrequency::kSlots;

size_t SlotOf(uint64_t item, size_t hash) {
  return hash * ItemFrequency::kSlots +
         Mix64(item + 0x9e3779b97f4a7c15ULL * (hash + 1)) % ItemFrequency::kSlots;
}

}  // namespace

void ItemFrequency::Observe(uint64_t step, std::span<const uint64_t> items,
                            std::span<const float> state) {
  SIMURGH_CHECK_EQ(state.size(), kStateSize);
  constexpr float kMostCounted = 1.0F / kRate;
  const auto now = static_cast<float>(1 + step % kSteps);
  touched_.clear();
  for (const uint64_t item : items) {
    for (size_t hash = 0; hash < kHashes; ++hash) touched_.push_back(SlotOf(item, hash));
  }
  std::ranges::sort(touched_);
  pending_.clear();
  for (const size_t index : touched_) {
    if (pending_.empty() || pending_.back().index != index) {
      pending_.push_back({.index = index,
                          .gap = state[index],
                          .last = state[kCells + index],
                          .count = state[2 * kCells + index]});
    }
    Slot& slot = pending_.back();
    float gap = now - slot.last;
    if (gap < 0) gap += static_cast<float>(kSteps);
    slot.count = std::min(slot.count + 1, kMostCounted);
    slot.gap += (gap - slot.gap) / slot.count;
    slot.last = now;
  }
}

double ItemFrequency::Of(uint64_t item, std::span<const float> state) const {
  float gap = 0;
  for (size_t hash = 0; hash < kHashes; ++hash) {
    const size_t index = SlotOf(item, hash);
    const auto found = std::ranges::lower_bound(pending_, index, {}, &Slot::index);
    const bool is_pending = found != pending_.end() && found->index == index;
    const float own = is_pending ? found->gap : state[index];
    if (own == 0) return 0;  // No item of the slot has occurred.
    gap = std::max(gap, own);
  }
  return 1.0 / double{gap};
}

void ItemFrequency::Commit(std::span<float> state) {
  for (const Slot& slot : pending_) {
    state[slot.index] = slot.gap;
    state[kCells + slot.index] = slot.last;
    state[2 * kCells + slot.index] = slot.count;
  }
  pending_.clear();
}

}  // namespace simurgh
