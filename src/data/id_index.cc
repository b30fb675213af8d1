#include "data/id_index.h"

#include "simurgh/base/hash.h"

namespace simurgh {
namespace {

constexpr size_t kInitialSlots = 64;

}  // namespace

IdIndex::IdIndex() : slots_(kInitialSlots) {}

IdIndex::Slot& IdIndex::Find(uint64_t id) {
  const size_t mask = slots_.size() - 1;
  size_t position = Mix64(id) & mask;
  while (slots_[position].round == round_ && slots_[position].id != id) {
    position = (position + 1) & mask;
  }
  return slots_[position];
}

uint32_t IdIndex::Insert(uint64_t id) {
  Slot* slot = &Find(id);
  if (slot->round == round_) return slot->number;
  if (2 * (ids_.size() + 1) > slots_.size()) {
    Grow();
    slot = &Find(id);
  }
  *slot = {.id = id, .number = static_cast<uint32_t>(ids_.size()), .round = round_};
  ids_.push_back(id);
  return slot->number;
}

// Without other removals, taking the youngest entry out of a linear probe leaves exactly the table
// before it came in; so from the youngest backwards no tombstones are needed. Grow keeps this true
// by inserting in order of age.
void IdIndex::Truncate(size_t size) {
  while (ids_.size() > size) {
    Find(ids_.back()).round = 0;
    ids_.pop_back();
  }
}

void IdIndex::Clear() {
  ids_.clear();
  if (++round_ == 0) {  // Wrapped: old rounds would come alive again.
    slots_.assign(slots_.size(), Slot{});
    round_ = 1;
  }
}

void IdIndex::Grow() {
  slots_.assign(2 * slots_.size(), Slot{});
  for (size_t number = 0; number < ids_.size(); ++number) {
    Find(ids_[number]) = {
        .id = ids_[number], .number = static_cast<uint32_t>(number), .round = round_};
  }
}

}  // namespace simurgh
