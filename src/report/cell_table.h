#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "data/reading/row_batcher.h"

namespace simurgh {

// Cells of rows, with copies of their texts and lists.
//
// Threads: one owner while rows are added, then any.
class CellTable {
 public:
  // cells: one per column; each row has equally many.
  void AddRow(std::span<const Cell> cells);

  size_t rows() const { return rows_.size(); }
  size_t columns() const { return rows_.empty() ? 0 : rows_.front().cells.size(); }
  const Cell& cell(size_t row, size_t column) const { return rows_[row].cells[column]; }

 private:
  struct Row {
    std::vector<Cell> cells;
    std::unique_ptr<char[]> text;
    std::vector<std::string_view> lists;
  };

  std::vector<Row> rows_;
};

// Returns whether cells have the same value.
bool AreEqual(const Cell& a, const Cell& b);

}  // namespace simurgh
