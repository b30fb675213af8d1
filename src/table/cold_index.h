#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simurgh {

// Maps hashes of ids to the places of cold rows. An id is not stored: of 64 bits of its hash, 40
// are compared, so a search may find the place of another id, about once in 2^40 / size().
//
// Linear probing in 256 parts. A part that is full to 0.8 grows by a tenth: 10 to 11 bytes an
// entry. With more parts, the allocator's rounding would cost some bytes more. Erasing moves later
// entries back (Knuth, TAOCP 3, 6.4, algorithm R).
//
// Threads: one owner.
class ColdIndex {
 public:
  // Adds an entry. place: not UINT32_MAX.
  void Insert(uint64_t hash, uint32_t place);
  // Removes or replaces the entry. Requires that it exists.
  void Erase(uint64_t hash, uint32_t place);
  void Replace(uint64_t hash, uint32_t place, uint32_t by);

  // Calls visit(place) for each entry of this hash. `visit` must not change the index.
  template <typename Visit>
  void ForEach(uint64_t hash, const Visit& visit) const {
    if (parts_.empty()) return;
    const Part& part = PartOf(hash);
    if (part.count == 0) return;
    const uint32_t key = KeyOf(hash);
    for (size_t i = part.Home(key); !part.slots[i].is_empty(); i = part.Next(i)) {
      if (part.slots[i].key == key) visit(part.slots[i].place);
    }
  }

  void Prefetch(uint64_t hash) const {
    if (parts_.empty()) return;
    const Part& part = PartOf(hash);
    if (part.count > 0) __builtin_prefetch(&part.slots[part.Home(KeyOf(hash))]);
  }

  uint64_t size() const { return size_; }
  uint64_t bytes_used() const { return slots_ * sizeof(Slot) + parts_.size() * sizeof(Part); }

 private:
  static constexpr size_t kParts = 256;
  static constexpr uint32_t kEmpty = UINT32_MAX;

  struct Slot {
    uint32_t key = 0;
    uint32_t place = kEmpty;
    bool is_empty() const { return place == kEmpty; }
  };

  struct Part {
    std::vector<Slot> slots;
    size_t count = 0;

    size_t Home(uint32_t key) const { return (uint64_t{key} * slots.size()) >> 32; }
    size_t Next(size_t i) const { return i + 1 == slots.size() ? 0 : i + 1; }
    size_t Find(uint32_t key, uint32_t place) const;
    void Add(Slot slot);
  };

  // The top bits of ids' hashes differ within a partition: they are salted.
  static size_t NumberOf(uint64_t hash) { return hash >> 56; }
  static uint32_t KeyOf(uint64_t hash) { return static_cast<uint32_t>(hash >> 16); }
  Part& PartOf(uint64_t hash) { return parts_[NumberOf(hash)]; }
  const Part& PartOf(uint64_t hash) const { return parts_[NumberOf(hash)]; }

  std::vector<Part> parts_;  // Empty before the first entry.
  uint64_t size_ = 0;
  uint64_t slots_ = 0;
};

}  // namespace simurgh
