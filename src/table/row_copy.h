#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"

#include "simurgh/table/copy_memory.h"
#include "simurgh/table/table.h"
#include "table/change_log.h"
#include "table/row_layout.h"

namespace simurgh {

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

  // Moves rows out: see Table::TakeRows() and TakeEarlyRows().
  CopiedRows TakeEarly();
  CopiedRows Take(size_t count);

  // Before the recency of all rows is lowered by `shift`, to 0 at least and to 1 from bound() on.
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
