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

// One value of a cell. Lifetime: of the line.
struct Token {
  std::string_view text;
  uint64_t number = 0;  // If is_number.
  bool is_number = false;
};

// The cells of a row as lists of tokens. A missing or unread cell is empty.
class RowCells {
 public:
  void Clear() {
    tokens_.clear();
    ends_.clear();
  }
  void Add(const Token& token) { tokens_.push_back(token); }
  void EndCell() { ends_.push_back(tokens_.size()); }

  std::span<const Token> cell(size_t index) const {
    const size_t first = index == 0 ? 0 : ends_[index - 1];
    return std::span(tokens_).subspan(first, ends_[index] - first);
  }

 private:
  std::vector<Token> tokens_;
  std::vector<size_t> ends_;
};

// Receives the parsed cells of each row.
//
// Threads: one owner.
class RowConsumer {
 public:
  virtual ~RowConsumer() = default;

  // Whether the consumer reads the column. Parsers may leave the cells of others empty.
  virtual bool Reads(size_t column) const = 0;

  // cells: one per column.
  // Errors: INVALID_ARGUMENT naming feature or column, value and remedy.
  virtual Status Consume(const RowCells& cells, BatchBuilder& builder) = 0;
};

}  // namespace simurgh
