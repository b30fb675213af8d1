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
struct Token {
  std::string_view text;
  uint64_t number = 0;  // Where the format itself says that it is one.
  bool is_number = false;
};

// The cells of a row that somebody reads, each a list of tokens, empty where it is missing.
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

// Who takes the cells of each row.
//
// Threads: one owner.
class RowConsumer {
 public:
  virtual ~RowConsumer() = default;

  // Whether it reads the column; others come as empty cells.
  virtual bool Reads(size_t column) const = 0;

  // Who does, for messages: "feature 'age'".
  virtual std::string ReaderOf(size_t column) const = 0;

  // One cell a column, in their order.
  // Errors: INVALID_ARGUMENT naming feature or column, value and remedy.
  virtual Status Consume(const RowCells& cells, BatchBuilder& builder) = 0;
};

}  // namespace simurgh
