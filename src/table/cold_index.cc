#include "table/cold_index.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace simurgh {

size_t ColdIndex::Part::Find(uint32_t key, uint32_t place) const {
  SIMURGH_CHECK(count > 0);
  size_t i = Home(key);
  while (slots[i].place != place) {
    SIMURGH_CHECK(!slots[i].is_empty()) << "cold index: no entry";
    i = Next(i);
  }
  return i;
}

void ColdIndex::Part::Add(Slot slot) {
  size_t i = Home(slot.key);
  while (!slots[i].is_empty()) i = Next(i);
  slots[i] = slot;
}

void ColdIndex::Insert(uint64_t hash, uint32_t place) {
  if (parts_.empty()) parts_.resize(kParts);
  Part& part = PartOf(hash);
  if ((part.count + 1) * 5 > part.slots.size() * 4) {
    const size_t size = std::max<size_t>(8, part.slots.size() + part.slots.size() / 10 + 1);
    slots_ += size - part.slots.size();
    std::vector<Slot> old = std::exchange(part.slots, std::vector<Slot>(size));
    for (const Slot& slot : old) {
      if (!slot.is_empty()) part.Add(slot);
    }
  }
  part.Add({KeyOf(hash), place});
  ++part.count;
  ++size_;
}

void ColdIndex::Erase(uint64_t hash, uint32_t place) {
  Part& part = PartOf(hash);
  size_t hole = part.Find(KeyOf(hash), place);
  for (size_t i = part.Next(hole); !part.slots[i].is_empty(); i = part.Next(i)) {
    // An entry may move back to the hole unless its home is behind the hole, cyclically.
    const size_t home = part.Home(part.slots[i].key);
    const bool stays = hole <= i ? hole < home && home <= i : hole < home || home <= i;
    if (stays) continue;
    part.slots[hole] = part.slots[i];
    hole = i;
  }
  part.slots[hole] = {};
  --part.count;
  --size_;
}

void ColdIndex::Replace(uint64_t hash, uint32_t place, uint32_t by) {
  Part& part = PartOf(hash);
  part.slots[part.Find(KeyOf(hash), place)].place = by;
}

}  // namespace simurgh
