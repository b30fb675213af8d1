#include "nn/cuda/in_batch_stage.h"

#include <algorithm>
#include <span>
#include <vector>

#include "nn/item_frequency.h"

namespace simurgh::cuda {
namespace {

template <typename T>
T* At(std::byte* memory, const Region& region) {
  return reinterpret_cast<T*>(memory + region.offset);
}

// Writes the slots of the step's items, and where each item finds its own.
void StageSlots(const InBatchItems& all, const InBatchLayout& layout, InBatchHeader& header,
                std::byte* to) {
  const std::vector<ItemFrequency::Touched> touched = ItemFrequency::TouchedBy(all.Occurred());
  header.touched = static_cast<uint32_t>(touched.size());
  auto* const slots = At<TouchedSlot>(to, layout.slots);
  for (size_t i = 0; i < touched.size(); ++i) {
    slots[i] = {static_cast<uint32_t>(touched[i].index), static_cast<uint32_t>(touched[i].count)};
  }
  auto* place = At<uint32_t>(to, layout.places);
  for (const uint64_t item : all.items) {
    for (size_t hash = 0; hash < ItemFrequency::kHashes; ++hash) {
      const size_t index = ItemFrequency::SlotOf(item, hash);
      const auto found =
          std::ranges::lower_bound(touched, index, {}, &ItemFrequency::Touched::index);
      const bool is_touched = found != touched.end() && found->index == index;
      *place++ = is_touched ? kIsTouched | static_cast<uint32_t>(found - touched.begin())
                            : static_cast<uint32_t>(index);
    }
  }
}

}  // namespace

void StageItems(const InBatchItems& all, const InBatchShape& shape, const RankStep& step,
                bool counts, const InBatchLayout& layout, std::byte* to) {
  auto& header = *At<InBatchHeader>(to, layout.header);
  header = {.uniform_rate = step.uniform_rate, .now = ItemFrequency::NumberOf(step.step)};
  const LeftOut left_out(all);
  auto* const items = At<uint32_t>(to, layout.items);
  for (size_t j = 0; j < all.count(); ++j) {
    items[j] = all.kinds[j] == kPadding ? kNoItem : left_out.items()[j];
  }
  const std::span<const uint32_t> positives = left_out.positives();
  std::ranges::copy(positives, At<uint32_t>(to, layout.positives));
  auto* const lists = At<PositiveList>(to, layout.lists);
  for (size_t i = 0; i < shape.rows; ++i) {
    const std::span<const uint32_t> own = left_out.PositivesOf(shape.own + i);
    const auto begin = static_cast<uint32_t>(own.data() - positives.data());
    lists[i] = {begin, begin + static_cast<uint32_t>(own.size())};
  }
  if (counts) StageSlots(all, layout, header, to);
}

}  // namespace simurgh::cuda
