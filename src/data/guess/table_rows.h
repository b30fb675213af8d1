#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "data/guess/data_guess.h"
#include "data/reading/csv_cells.h"
#include "data/reading/row_lines.h"
#include "data/reading/row_parser.h"
#include "data/reading/row_source.h"
#include "data/reading/row_text.h"

namespace simurgh {

// Fewest columns of a file of CSV.
enum class Columns { kOne, kTwo };

// Returns the configuration to read a data file before the roles of its columns are known: format,
// separator and names of the columns, which are ids or, if they cannot be read, skipped. Names of a
// CSV file are in its header. Columns of Arrow data that are lists have kListSeparator.
// max_rows: number of JSON objects in which to look for keys, > 0.
// Errors: those of reading; INVALID_ARGUMENT with place and remedy for a file that is empty, or
// cannot be read as rows.
StatusOr<DataConfig> FindTable(const std::string& path, uint64_t max_rows, Columns columns);

// Reads the rows of a file as lines of text: those of the file or, for Parquet and Arrow data, of
// CSV. A header is one of them.
//
// Threads: one owner.
class TableLines {
 public:
  // Opens a file. Errors: those of reading.
  static StatusOr<TableLines> Open(const DataConfig& table, const std::string& path);
  ~TableLines();
  TableLines(TableLines&&) noexcept;

  // Returns the next row; nothing at the end. Leaves out lines of a CSV file that have separators
  // only, which spreadsheets write. Lifetime: until the next call. Errors: those of Open.
  StatusOr<std::optional<Line>> Next();
  // Adds the place of the last row to an error.
  Status AtLine(const Status& status) const;
  // Returns the number of rows of CSV with separators only, which Next() has left out.
  uint64_t blank_rows() const { return blank_rows_; }
  bool is_first_line() const { return lines_ && lines_->line_number() == 1; }

 private:
  struct Blocks;
  explicit TableLines(RowLines lines);
  explicit TableLines(std::unique_ptr<Blocks> blocks);

  std::optional<RowLines> lines_;  // Lines of a text file.
  char separator_ = '\0';          // Separator of a CSV file.
  uint64_t blank_rows_ = 0;
  std::unique_ptr<Blocks> blocks_;  // Blocks of Parquet and Arrow data; else null.
};

// Splits lines of TableLines into cells. kListSeparator follows each id of a list. The cell of an
// index:value pair has the index.
//
// Threads: one owner.
class TableCells {
 public:
  explicit TableCells(const DataConfig& table);

  // Returns one cell for each column, or for each name in a header. Lifetime: until the next call,
  // and the line's. Errors: INVALID_ARGUMENT for a bad row, with the remedy.
  StatusOr<const std::vector<std::string_view>*> Split(std::string_view line);

 private:
  const bool has_pairs_;
  CsvSplitter csv_;
  std::unique_ptr<CellSplitter> splitter_;  // Null: cells are between separators.
  std::vector<bool> are_lists_;             // One per column of Arrow data.
  std::vector<std::string_view> cells_;
  std::vector<std::string> lists_;  // Texts of cells that are lists, one per column.
};

// Calls visit(cells) for each row of a file but its header. Returns the number of rows that cannot
// be split. Errors: those of TableLines and of `visit`.
template <typename Visit>
StatusOr<uint64_t> ForEachRow(const DataConfig& table, const std::string& path,
                              const Visit& visit) {
  SIMURGH_ASSIGN_OR_RETURN(TableLines lines, TableLines::Open(table, path));
  TableCells cells(table);
  uint64_t bad = 0;
  bool is_header = HasHeader(table);
  for (;;) {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> line, lines.Next());
    if (!line) return bad;
    if (std::exchange(is_header, false)) continue;
    const auto split = line->whole ? cells.Split(line->text) : LongLineError();
    if (!split.ok()) {
      ++bad;
      continue;
    }
    SIMURGH_RETURN_IF_ERROR(visit(**split));
  }
}

}  // namespace simurgh
