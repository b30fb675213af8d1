#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"

#include "table/memory_budget.h"
#include "table/row_layout.h"
#include "table/table.h"

namespace simurgh {

// The rows of a table that changed, and the ids that went, since its last copy began and since the
// copy began that the last one continues. Memory: two bits a row; an id that went takes 8 bytes.
//
// Threads: one owner.
class ChangeLog {
 public:
  // Returns whether changes are to be noted.
  bool active() const { return active_; }

  void Change(uint32_t row) { recent_.Set(row); }
  // all_rows: rows of the table. When more ids have gone than half of them, changes are unknown.
  void Remove(uint32_t row, uint64_t id, uint64_t all_rows);
  // A row that is not in memory goes.
  void RemoveId(uint64_t id, uint64_t all_rows);
  // What is noted of one row.
  struct Noted {
    bool copied = false;  // Changed between the base of the last copy and its Begin().
    bool recent = false;  // Changed since then.
  };
  // A row leaves memory, or is back, and stays in the table.
  Noted Take(uint32_t row);
  void Put(uint32_t row, const Noted& noted);

  // A copy begins. all_rows: as for Remove.
  void Begin(CopyBase base, uint64_t all_rows);

  // --- Changes between the base of the last copy and its Begin(), without rows that were removed
  // since.

  bool known() const { return copied_.known; }
  bool Includes(uint32_t row) const { return copied_.Has(row); }
  // The first row from `row` on, or `end`.
  uint32_t Next(uint32_t row, uint32_t end) const;
  uint64_t Count() const;
  std::span<const uint64_t> removed() const { return copied_.removed; }

 private:
  static constexpr size_t kWordBits = 64;

  struct Changes {
    std::vector<uint64_t> rows;  // One bit per row.
    std::vector<uint64_t> removed;
    bool known = false;

    bool Has(uint32_t row) const {
      const size_t word = row / kWordBits;
      return word < rows.size() && (rows[word] & Bit(row)) != 0;
    }
    void Set(uint32_t row) {
      const size_t word = row / kWordBits;
      if (word >= rows.size()) [[unlikely]]
        rows.resize(2 * word + 1);
      rows[word] |= Bit(row);
    }
    void Clear(uint32_t row);
    // Forgets the ids if they are too many, or not all of them.
    void BoundRemoved(uint64_t all_rows);
  };

  static uint64_t Bit(uint32_t row) { return uint64_t{1} << (row % kWordBits); }

  bool active_ = false;
  Changes copied_;
  Changes recent_;  // Changes since the last copy began.
};

// A copy of the rows of a table as they were when it began, taken in pieces while the rows change:
// of all rows, or of those in a ChangeLog.
// Rows are copied in the order of their numbers, and a row before its first change.
//
// Pulls after the begin give their rows a stamp from bound() on. Hence a row with an older stamp
// has not changed, except by a push without a pull: such rows are remembered by number.
//
// Threads: one owner.
class RowCopy {
 public:
  explicit RowCopy(const Rows& rows) : rows_(rows) {}

  // bound: recency of the next pull. end: row numbers in use are below. count: rows in use.
  // Lifetime: `memory` must outlive the copy.
  void Begin(uint32_t bound, uint32_t end, uint64_t count, CopyMemory& memory);
  // Leaves out all rows but those that a log includes, `count` ones. Requires that no row has been
  // copied. Lifetime: `only` must outlive the copy.
  void Restrict(const ChangeLog& only, uint64_t count);
  void End();

  // Rows of smaller recency may have to be copied; 0 if none.
  uint32_t bound() const { return rows_left_ == 0 ? 0 : bound_; }
  // Rows that have not been copied.
  uint64_t rows_left() const { return rows_left_; }

  // Copies a row that is about to change, unless it has been copied or is no part of the copy.
  // keeps_stamp: the change does not stamp the row.
  void Save(uint32_t row, bool keeps_stamp);

  // Leaves out a row that came to memory after the begin, with its old stamp.
  void LeaveOut(uint32_t row);

  // Moves rows out: see Table::TakeRows() and TakeEarlyRows().
  CopiedRows TakeEarly();
  CopiedRows Take(size_t count);

  // Call before the recency of all rows is lowered by `shift`, to 0 at least and to 1 from bound()
  // on.
  void Rebase(uint64_t shift);

 private:
  bool HasRow(uint32_t row) const {
    return rows_.header(row).recency < bound_ && !changed_.contains(row) &&
           (only_ == nullptr || only_->Includes(row));
  }

  const Rows& rows_;
  CopyMemory* memory_ = nullptr;
  const ChangeLog* only_ = nullptr;  // Null: all rows.
  uint32_t bound_ = 0;
  uint32_t at_ = 0;  // Rows before it have been copied.
  uint32_t end_ = 0;
  uint64_t rows_left_ = 0;
  absl::flat_hash_set<uint32_t> changed_;  // Copied early, and kept their stamp.
  CopiedRows early_;
};

}  // namespace simurgh
