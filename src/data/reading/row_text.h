#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "data/reading/batch_reader.h"

namespace simurgh {

// Copies cells of rows as text, for output in CSV.
//
// Threads: one owner.
class RowText {
 public:
  // columns: names of configured columns. file: columns of the file; null: those of the
  // configuration, in order; must outlive the result. Errors: INVALID_ARGUMENT for a name that the
  // configuration does not have, with those that it has.
  static StatusOr<RowText> Create(const DataConfig& config, const std::vector<std::string>& columns,
                                  const FileColumns* file = nullptr);
  ~RowText();
  RowText(RowText&&) noexcept;

  // Appends the cells of a line as they are, each followed by a comma, and quoted if needed. The
  // quotes of a cell, with blanks around them, are left out. Cells that the line lacks are empty:
  // those of columns that the file lacks, or all cells of a line that does not have the right
  // number.
  void AppendCells(std::string_view line, std::string& text);

  // Returns the same cells, one per column, without quotes around them. Lifetime: until the next
  // call, and the line's.
  std::span<const std::string_view> Cells(std::string_view line);

 private:
  struct State;
  explicit RowText(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Appends a cell of CSV: in quotes if it has a separator, a quote, a line end or blanks at its
// ends.
void AppendCsvCell(std::string_view cell, std::string& text, char separator = ',');

// Returns the line with the configured columns, in order. A line that cannot be split stays as it
// is.
std::string InConfiguredOrder(const DataConfig& config, const FileColumns& file,
                              std::string_view line);

// Returns the configuration of files with the lines of BlockParser::Text(): `config`, or for
// formats without lines, CSV with a header and lists separated by the ASCII unit separator.
DataConfig LinesOf(const DataConfig& config);

// Returns the header of files with the configured columns, in order.
std::string CsvHeader(const DataConfig& config);

}  // namespace simurgh
