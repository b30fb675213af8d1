#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simurgh {

// What a trainer that keeps rows from batch to batch, in slots, has of those of a batch's ids.
struct KeptRows {
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  // Of a table's ids in the batch.
  struct TableUse {
    size_t hits = 0;    // Whose rows are here.
    size_t misses = 0;  // Whose rows come.
  };

  std::vector<uint64_t> here;  // A bit an id: its row is in its slot, and does not come.
  std::vector<uint32_t>
      slots;        // (ids) of the row, or where one that comes is put then, if anywhere.
  size_t hits = 0;  // Ids whose rows are here.
  std::vector<TableUse> tables;  // By table.
  size_t moves = 0;              // Ids whose rows come and are put into slots.
  uint32_t age_steps = 0;        // Of the oldest that is here.
  size_t rows = 0;               // In slots once this batch's are.

  bool is_here(size_t id) const { return (here[id / 64] >> (id % 64) & 1U) != 0; }
};

}  // namespace simurgh
