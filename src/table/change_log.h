#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simurgh/table/table.h"

namespace simurgh {

// The rows of a table that changed, and the ids that went, since its last copy began and since the
// copy began that the last one continues. Memory: two bits a row; an id that went takes 8 bytes.
//
// Threads: one owner.
class ChangeLog {
 public:
  // Whether changes are to be noted.
  bool active() const { return active_; }

  void Change(uint32_t row) {
    const size_t word = row / kWordBits;
    if (word >= recent_.rows.size()) [[unlikely]]
      recent_.rows.resize(2 * word + 1);
    recent_.rows[word] |= Bit(row);
  }
  // all_rows: rows of the table. When more ids have gone than half of them, changes are unknown.
  void Remove(uint32_t row, uint64_t id, uint64_t all_rows);

  // A copy begins. all_rows: as for Remove.
  void Begin(CopyBase base, uint64_t all_rows);

  // --- Of the last Begin(): changes between the copy's base and its begin, without rows that were
  // removed since.

  bool known() const { return copied_.known; }
  bool Includes(uint32_t row) const {
    const size_t word = row / kWordBits;
    return word < copied_.rows.size() && (copied_.rows[word] & Bit(row)) != 0;
  }
  // The first row from `row` on, or `end`.
  uint32_t Next(uint32_t row, uint32_t end) const;
  uint64_t Count() const;
  std::span<const uint64_t> removed() const { return copied_.removed; }

 private:
  static constexpr size_t kWordBits = 64;

  struct Changes {
    std::vector<uint64_t> rows;  // A bit each.
    std::vector<uint64_t> removed;
    bool known = false;

    // Forgets the ids if they are too many, or not all of them.
    void BoundRemoved(uint64_t all_rows);
  };

  static uint64_t Bit(uint32_t row) { return uint64_t{1} << (row % kWordBits); }

  bool active_ = false;
  Changes copied_;
  Changes recent_;  // Since the last copy began.
};

}  // namespace simurgh
