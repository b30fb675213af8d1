#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace simurgh {

// Numbers distinct ids 0, 1, 2, ... in order of first appearance. Reusable.
//
// Open addressing with linear probing, at most half full. A slot is in use only in the current
// round, so Clear is O(1). Memory never shrinks. Slots, but not numbers, depend on a random seed of
// the process, because ids are received from peers. Threads: one owner.
class IdIndex {
 public:
  IdIndex();

  // Sets the number of each id, new or old. Requires ids.size() == numbers.size().
  // Cost: prefetches the slots of a group of ids; no branch on whether an id is new.
  void Number(std::span<const uint64_t> ids, std::span<uint32_t> numbers);

  void Clear();

  // Returns the ids in the order of their numbers.
  std::span<const uint64_t> ids() const { return std::span(ids_).first(size_); }

 private:
  struct Slot {
    uint64_t id = 0;
    uint32_t number = 0;
    uint32_t round = 0;  // 0: never used.
  };

  size_t Position(uint64_t id) const;  // Returns the slot where the search starts.
  // Makes room for `count` more ids.
  void Reserve(size_t count);
  void NumberGroup(std::span<const uint64_t> ids, uint32_t* numbers);

  const uint64_t seed_;
  std::vector<Slot> slots_;    // The number of slots is a power of two.
  std::vector<uint64_t> ids_;  // The first size_ are in use.
  size_t size_ = 0;
  uint32_t round_ = 1;
};

}  // namespace simurgh
