#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/data/batch_builder.h"

namespace simurgh {

// One value of a cell; its text lives as long as the line.
struct Part {
  std::string_view text;
  uint64_t number = 0;  // Where the format itself says that it is one.
  bool is_number = false;
};

// The cells of a row that somebody reads, each a list of parts, empty where it is missing.
class RowCells {
 public:
  void Clear() {
    parts_.clear();
    ends_.clear();
  }
  void Add(const Part& part) { parts_.push_back(part); }
  void EndCell() { ends_.push_back(parts_.size()); }

  std::span<const Part> cell(size_t index) const {
    const size_t first = index == 0 ? 0 : ends_[index - 1];
    return std::span(parts_).subspan(first, ends_[index] - first);
  }

 private:
  std::vector<Part> parts_;
  std::vector<size_t> ends_;
};

// Who takes the cells of each row.
//
// Threads: one owner.
class CellSink {
 public:
  virtual ~CellSink() = default;

  // Whether it reads the column; others come as empty cells.
  virtual bool Reads(size_t column) const = 0;

  // Who does, for messages: "feature 'age'".
  virtual std::string ReaderOf(size_t column) const = 0;

  // One cell a column, in their order.
  // Errors: INVALID_ARGUMENT naming feature or column, value and remedy.
  virtual Status Take(const RowCells& cells, BatchBuilder& builder) = 0;
};

}  // namespace simurgh
