#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "data/batch/batch_builder.h"
#include "data/processing/feature_consumer.h"
#include "data/reading/batch_reader.h"
#include "data/reading/row_batcher.h"

namespace simurgh {

// Splits rows into the cells of the configured columns.
//
// Threads: one owner.
class CellSplitter {
 public:
  virtual ~CellSplitter() = default;

  // Sets cells(). Errors: INVALID_ARGUMENT naming column or byte, and remedy.
  virtual Status Split(std::string_view row) = 0;

  // Returns one cell per column of ColumnsOf(), always in the same place. Lifetime of their texts
  // and lists: until the next Split, and the row's.
  std::span<const Cell> cells() const { return cells_; }

 protected:
  explicit CellSplitter(size_t columns) : cells_(columns) {}

  std::vector<Cell> cells_;
};

// Returns the splitter of a format; null for CSV and Criteo.
std::unique_ptr<CellSplitter> NewCellSplitter(const DataConfig& config);

// Turns a row of one format into a sample.
//
// Threads: one owner.
class RowParser {
 public:
  virtual ~RowParser() = default;

  // Sets labels, weight, dense columns and, through the consumer, ids of the builder's open sample;
  // the caller ends or abandons it. columns: those of the file; null: those of the configuration.
  // Errors: INVALID_ARGUMENT naming column, value and remedy; the caller adds file and line.
  virtual Status Parse(std::string_view line, const FileColumns* columns,
                       BatchBuilder& builder) = 0;

  // Parses a row of cells: one per column of ColumnsOf() without IsTarget or, without
  // ignore_labels, per column. Otherwise same as Parse(). repeated: see RowBatcher::AddCells.
  virtual Status ParseCells(std::span<const Cell* const> cells, std::span<const bool> repeated,
                            BatchBuilder& builder) = 0;

  // Takes a warning of a cell of the last parsed row, naming column, value and remedy; empty if
  // there is none.
  std::string TakeWarning() { return std::exchange(warning_, {}); }

 protected:
  std::string warning_;
};

// Returns the columns of rows that have all configured ones, or all but targets, in their order.
FileColumns ColumnsInOrder(std::span<const ColumnConfig> columns, bool with_labels);

// Returns the parser of the format. ignore_labels: see ReadOptions.
std::unique_ptr<RowParser> NewRowParser(const DataConfig& config, bool ignore_labels,
                                        std::unique_ptr<RowConsumer> consumer);

// Parses rows of CSV, and cells of all formats but Criteo's. A cell in double quotes may contain
// separators, line ends and, doubled, quotes. A missing cell has no tokens; missing values of a
// list are left out.
std::unique_ptr<RowParser> NewCsvParser(const DataConfig& config, bool ignore_labels,
                                        std::unique_ptr<RowConsumer> consumer);

// Parses cells of the Criteo layout. Tokens of id columns are numbers.
std::unique_ptr<RowParser> NewCriteoParser(const DataConfig& config, bool ignore_labels,
                                           std::unique_ptr<RowConsumer> consumer);

// The number of a dense cell as text that parses to the same number.
class NumberText {
 public:
  explicit NumberText(double number);
  std::string_view view() const { return {digits_.data(), length_}; }

 private:
  std::array<char, 32> digits_;
  size_t length_;
};

}  // namespace simurgh
