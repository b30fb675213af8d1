#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simurgh {

// Numbers distinct ids 0, 1, 2, ... in order of first appearance: the deduplication of one feature
// of one batch, made to be cleared and filled again for ever.
//
// Open addressing with linear probing, at most half full. A slot counts only while it carries the
// current round, so Clear costs nothing; memory never shrinks, so steady state allocates nothing.
// Threads: one owner.
class IdIndex {
 public:
  IdIndex();

  // The number of `id`, new or old.
  uint32_t Insert(uint64_t id);

  // Forgets the ids numbered `size` and up, as if never inserted. Cost: the number forgotten.
  void Truncate(size_t size);

  void Clear();

  // The ids, by number.
  const std::vector<uint64_t>& ids() const { return ids_; }

 private:
  struct Slot {
    uint64_t id = 0;
    uint32_t number = 0;
    uint32_t round = 0;  // 0: never used.
  };

  // The slot that holds `id`, or the free one where it belongs.
  Slot& Find(uint64_t id);
  void Grow();

  std::vector<Slot> slots_;  // A power of two.
  std::vector<uint64_t> ids_;
  uint32_t round_ = 1;
};

}  // namespace simurgh
