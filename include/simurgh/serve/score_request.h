#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simurgh {

// One value of a column.
struct Cell {
  enum class Kind : uint8_t {
    kMissing,
    kText,    // The text of a cell of a file, without quotes.
    kNumber,  // The number of a dense column.
    kList,    // The ids of a cell of a column with a separator, apart.
  };

  Kind kind = Kind::kMissing;
  std::string_view text = {};
  double number = 0;
  std::span<const std::string_view> list = {};
};

// Rows to predict, column by column.
struct ScoreRequest {
  size_t rows = 0;
  // By index in RowFormat::columns: a value for each row, or one that all rows share. An empty
  // vector: the value is missing in all rows.
  std::vector<std::vector<Cell>> columns;
  std::shared_ptr<const void> memory;  // Keeps the texts and lists of the cells.
};

// A row that was not predicted.
struct RowProblem {
  size_t row = 0;       // From 0.
  std::string message;  // Names column, value and remedy.
};

// The predictions of a request.
struct ScoredRows {
  std::vector<float> probabilities;  // (rows, labels), row by row. NaN in bad rows.
  size_t bad_rows = 0;
  std::vector<RowProblem> problems;  // Of the first kMaxProblems bad rows.

  static constexpr size_t kMaxProblems = 10;
};

}  // namespace simurgh
