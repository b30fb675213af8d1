#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "config/feature_config.h"
#include "data/batch/batch_builder.h"

namespace simurgh {

// One value of a cell. Lifetime: that of the line.
struct Token {
  std::string_view text;
  uint64_t number = 0;  // Valid if is_number.
  bool is_number = false;
  bool has_weight = false;
  float weight = 1.0F;
};

// The cells of a row as lists of tokens. A missing or unread cell is empty.
class RowCells {
 public:
  // Begins the next row. is_whole: the row that ends is the one that Repeat() repeats.
  void Begin(bool is_whole) {
    if (is_whole) {
      before_.swap(tokens_);
      ends_before_.swap(ends_);
    }
    tokens_.clear();
    ends_.clear();
    repeated_ = {};
  }
  void Add(const Token& token) { tokens_.push_back(token); }
  void EndCell() { ends_.push_back(tokens_.size()); }
  // Adds the tokens of the same cell of the last whole row.
  void Repeat() {
    const size_t index = ends_.size();
    const size_t first = index == 0 ? 0 : ends_before_[index - 1];
    tokens_.insert(tokens_.end(), before_.begin() + static_cast<ptrdiff_t>(first),
                   before_.begin() + static_cast<ptrdiff_t>(ends_before_[index]));
  }
  // Sets whether each column's cell equals that of the row before. columns: one per column; empty:
  // none does.
  void SetRepeated(std::span<const bool> columns) { repeated_ = columns; }

  std::span<const Token> cell(size_t index) const {
    const size_t first = index == 0 ? 0 : ends_[index - 1];
    return std::span(tokens_).subspan(first, ends_[index] - first);
  }
  // Returns whether all these columns' cells equal those of the row before.
  bool AreRepeated(std::span<const size_t> columns) const {
    return !repeated_.empty() &&
           std::ranges::all_of(columns, [this](size_t column) { return repeated_[column]; });
  }

 private:
  std::vector<Token> tokens_;
  std::vector<size_t> ends_;
  std::vector<Token> before_;  // Tokens of the last whole row.
  std::vector<size_t> ends_before_;
  std::span<const bool> repeated_;
};

// Returns the first values of these columns of a row, each Quoted(), for a message.
std::string QuotedValues(const RowCells& cells, std::span<const size_t> columns);

// Receives the parsed cells of each row.
//
// Threads: one owner.
class RowConsumer {
 public:
  virtual ~RowConsumer() = default;

  // Returns whether the consumer reads the column. Parsers may leave the cells of others empty.
  virtual bool Reads(size_t column) const = 0;

  // A feature whose ids are just the hashes of one column's values.
  struct Hashed {
    size_t feature;
    size_t column;
    uint64_t seed;  // Seed of HashText().
  };
  // Hands over the hashed features of those columns that have no other use and one seed. The caller
  // adds their ids; Consume() no longer does, and their cells may be empty.
  virtual std::vector<Hashed> TakeHashed(std::span<const size_t> /*columns*/) { return {}; }

  // Adds a row to the open sample. cells: one per column.
  // Errors: INVALID_ARGUMENT naming feature or column, value and remedy.
  virtual Status Consume(const RowCells& cells, BatchBuilder& builder) = 0;
};

// Returns a consumer that adds every feature's ids, and the derived dense values of `config`, to
// the open sample.
// warns: whether weights that are too large are logged.
// Errors: INVALID_ARGUMENT for a plug-in that cannot be loaded or refuses its parameters.
StatusOr<std::unique_ptr<RowConsumer>> NewFeatureConsumer(
    const DataConfig& config, const std::vector<FeatureConfig>& features, bool warns = true);

}  // namespace simurgh
