#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simurgh/data/row_batcher.h"

namespace simurgh {

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
  // Of the version that was used, if it is not the one that was asked.
  std::optional<uint64_t> step;
  size_t bad_rows = 0;
  std::vector<RowProblem> problems;  // Of the first kMaxProblems bad rows.

  static constexpr size_t kMaxProblems = 10;

  void AddProblem(size_t row, std::string message) {
    if (++bad_rows <= kMaxProblems) problems.push_back({row, std::move(message)});
  }
};

}  // namespace simurgh
