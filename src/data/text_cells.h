#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"
#include "simurgh/data/row_batcher.h"

namespace simurgh {

// Splits rows into the cells of the configured columns.
//
// Threads: one owner.
class CellSplitter {
 public:
  virtual ~CellSplitter() = default;

  // Sets cells(). Errors: INVALID_ARGUMENT naming column or byte, and remedy.
  virtual Status Split(std::string_view row) = 0;

  // One per column of ColumnsOf(). They are always in the same place. Lifetime of what they refer
  // to: until the next Split, and the row's.
  std::span<const Cell> cells() const { return cells_; }

 protected:
  explicit CellSplitter(size_t columns) : cells_(columns) {}

  std::vector<Cell> cells_;
};

// The splitter of a format; null for CSV and Criteo.
std::unique_ptr<CellSplitter> NewCellSplitter(const DataConfig& config);

}  // namespace simurgh
