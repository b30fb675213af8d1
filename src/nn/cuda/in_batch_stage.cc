#include "nn/cuda/in_batch_stage.h"

#include <algorithm>
#include <cstddef>
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
  constexpr size_t kHashes = ItemFrequency::kHashes;
  // Slots that occur have the first numbers.
  std::vector<uint64_t> slots;
  std::vector<size_t> samples;
  slots.reserve(all.count() * kHashes);
  samples.reserve(all.count());
  size_t occurring = 0;
  for (const bool occurs : {true, false}) {
    for (size_t j = 0; j < all.count(); ++j) {
      if ((all.kinds[j] == kOther || all.kinds[j] == kPositive) != occurs) continue;
      samples.push_back(j);
      for (size_t hash = 0; hash < kHashes; ++hash) {
        slots.push_back(ItemFrequency::SlotOf(all.items[j], hash));
      }
    }
    if (occurs) occurring = slots.size();
  }
  const KeyNumbers numbers(slots);
  auto* const touched = At<TouchedSlot>(to, layout.slots);
  header.touched = 0;
  for (size_t i = 0; i < occurring; ++i) {
    const uint32_t number = numbers.numbers[i];
    if (number == header.touched) {
      touched[header.touched++] = {.index = static_cast<uint32_t>(slots[i])};
    }
    ++touched[number].count;
  }
  auto* const places = At<uint32_t>(to, layout.places);
  for (size_t i = 0; i < slots.size(); ++i) {
    const uint32_t number = numbers.numbers[i];
    places[samples[i / kHashes] * kHashes + i % kHashes] =
        number < header.touched ? kIsTouched | number : static_cast<uint32_t>(slots[i]);
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
