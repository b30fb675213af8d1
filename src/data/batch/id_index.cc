#include "data/batch/id_index.h"

#include <algorithm>
#include <array>
#include <random>

#include "base/check.h"
#include "base/hash.h"

namespace simurgh {
namespace {

constexpr size_t kInitialSlots = 64;
constexpr size_t kGroup = 32;  // Ids whose slots are prefetched together.

// Returns a random number, so that peers cannot choose ids that collide.
uint64_t SeedOfProcess() {
  static const uint64_t seed = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  return seed;
}

}  // namespace

IdIndex::IdIndex() : seed_(SeedOfProcess()), slots_(kInitialSlots) {}

size_t IdIndex::Position(uint64_t id) const { return Mix64(id ^ seed_) & (slots_.size() - 1); }

void IdIndex::Number(std::span<const uint64_t> ids, std::span<uint32_t> numbers) {
  SIMURGH_CHECK_EQ(ids.size(), numbers.size());
  for (size_t first = 0; first < ids.size(); first += kGroup) {
    const auto group = ids.subspan(first, std::min(kGroup, ids.size() - first));
    Reserve(group.size());
    NumberGroup(group, numbers.data() + first);
  }
}

void IdIndex::NumberGroup(std::span<const uint64_t> ids, uint32_t* numbers) {
  const size_t mask = slots_.size() - 1;
  Slot* const slots = slots_.data();
  std::array<size_t, kGroup> positions;
  for (size_t i = 0; i < ids.size(); ++i) {
    positions[i] = Position(ids[i]);
    __builtin_prefetch(&slots[positions[i]], 1);
  }
  auto next = static_cast<uint32_t>(size_);
  for (size_t i = 0; i < ids.size(); ++i) {
    const uint64_t id = ids[i];
    size_t position = positions[i];
    while (slots[position].round == round_ && slots[position].id != id) {
      position = (position + 1) & mask;
    }
    Slot& slot = slots[position];
    const bool is_new = slot.round != round_;
    const uint32_t number = is_new ? next : slot.number;
    slot = {.id = id, .number = number, .round = round_};
    ids_[next] = id;  // Overwritten later if the id is old.
    next += is_new ? 1 : 0;
    numbers[i] = number;
  }
  size_ = next;
}

void IdIndex::Clear() {
  size_ = 0;
  if (++round_ == 0) {  // After a wrap, old rounds would match again.
    std::fill(slots_.begin(), slots_.end(), Slot{});
    round_ = 1;
  }
}

void IdIndex::Reserve(size_t count) {
  if (ids_.size() < size_ + count + 1) ids_.resize(std::max(2 * ids_.size(), size_ + count + 1));
  if (2 * (size_ + count) <= slots_.size()) return;
  size_t slots = slots_.size();
  while (slots < 2 * (size_ + count)) slots *= 2;
  slots_.assign(slots, Slot{});
  const size_t mask = slots - 1;
  for (size_t number = 0; number < size_; ++number) {
    size_t position = Position(ids_[number]);
    while (slots_[position].round == round_) position = (position + 1) & mask;
    slots_[position] = {
        .id = ids_[number], .number = static_cast<uint32_t>(number), .round = round_};
  }
}

}  // namespace simurgh
