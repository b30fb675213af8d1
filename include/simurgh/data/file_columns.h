#pragma once

#include <cstddef>
#include <vector>

namespace simurgh {

// Where the rows of a file have the configured columns.
struct FileColumns {
  static constexpr size_t kAbsent = ~size_t{0};

  size_t width = 0;           // Cells of a row.
  std::vector<size_t> cells;  // By column of ColumnsOf(): the index of its cell, or kAbsent.

  bool operator==(const FileColumns&) const = default;
};

}  // namespace simurgh
