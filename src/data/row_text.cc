#include "simurgh/data/row_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "data/csv_cells.h"
#include "data/row_parser.h"

namespace simurgh {

struct RowText::State {
  State(const DataConfig& config, const FileColumns* file_columns)
      : columns(ColumnsOf(config)),
        is_csv(config.format == DataConfig::Format::kCsv),
        splitter(config.csv.separator),
        file(file_columns),
        configured(ColumnsInOrder(columns, /*with_labels=*/true)),
        unlabelled(ColumnsInOrder(columns, /*with_labels=*/false)) {}

  // Fills `cells`.
  void Split(std::string_view line) {
    cells.clear();
    if (is_csv) {
      if (const auto split = splitter.Split(line); split.ok()) cells = **split;
      return;
    }
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find('\t', begin), line.size());
      cells.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  const std::vector<ColumnConfig> columns;
  const bool is_csv;
  CsvSplitter splitter;
  const FileColumns* const file;  // May be null.
  const FileColumns configured;
  const FileColumns unlabelled;
  std::vector<size_t> chosen;  // Indices of columns.
  std::vector<std::string_view> cells;
};

RowText::RowText(std::unique_ptr<State> state) : state_(std::move(state)) {}
RowText::~RowText() = default;
RowText::RowText(RowText&&) noexcept = default;

StatusOr<RowText> RowText::Create(const DataConfig& config, const std::vector<std::string>& columns,
                                  const FileColumns* file) {
  auto state = std::make_unique<State>(config, file);
  for (const std::string& name : columns) {
    const auto found = std::ranges::find(state->columns, name, &ColumnConfig::name);
    if (found == state->columns.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "no column is named '", name, "'; use some of ",
          absl::StrJoin(state->columns, ", ", [](std::string* text, const ColumnConfig& column) {
            absl::StrAppend(text, column.name);
          })));
    }
    state->chosen.push_back(static_cast<size_t>(found - state->columns.begin()));
  }
  return RowText(std::move(state));
}

void RowText::AppendCells(std::string_view line, std::string& text) {
  State& state = *state_;
  state.Split(line);
  const FileColumns* file = state.file;
  if (file == nullptr) {
    file = state.cells.size() == state.unlabelled.width ? &state.unlabelled : &state.configured;
  }
  const bool fits = state.cells.size() == file->width;
  for (const size_t column : state.chosen) {
    const size_t cell = file->cells[column];
    if (fits && cell != FileColumns::kAbsent) AppendCsvCell(state.cells[cell], text);
    text.push_back(',');
  }
}

std::string InConfiguredOrder(const DataConfig& config, const FileColumns& file,
                              std::string_view line) {
  CsvSplitter splitter(config.csv.separator);
  const auto cells = splitter.Split(line);
  if (!cells.ok() || (*cells)->size() != file.width) return std::string(line);
  std::string text;
  for (const size_t cell : file.cells) {
    if (cell != FileColumns::kAbsent) AppendCsvCell((**cells)[cell], text, config.csv.separator);
    text.push_back(config.csv.separator);
  }
  text.pop_back();
  return text;
}

std::string CsvHeader(const DataConfig& config) {
  std::string text;
  for (const ColumnConfig& column : config.columns) {
    AppendCsvCell(column.header_name.empty() ? column.name : column.header_name, text,
                  config.csv.separator);
    text.push_back(config.csv.separator);
  }
  text.pop_back();
  return text;
}

void AppendCsvCell(std::string_view cell, std::string& text, char separator) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  if (cell.find(separator) == cell.npos && cell.find_first_of("\"\r\n") == cell.npos &&
      (cell.empty() || (!is_blank(cell.front()) && !is_blank(cell.back())))) {
    text.append(cell);
    return;
  }
  text.push_back('"');
  for (const char c : cell) {
    if (c == '"') text.push_back('"');
    text.push_back(c);
  }
  text.push_back('"');
}

}  // namespace simurgh
