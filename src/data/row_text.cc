#include "simurgh/data/row_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "data/csv_cells.h"

namespace simurgh {

struct RowText::State {
  explicit State(const DataConfig& config)
      : columns(ColumnsOf(config)),
        is_csv(config.format == DataConfig::Format::kCsv),
        splitter(config.csv.separator),
        labels(static_cast<size_t>(
            std::ranges::count(columns, ColumnConfig::Kind::kLabel, &ColumnConfig::kind))) {}

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
  const size_t labels;
  std::vector<size_t> chosen;  // Indices of columns.
  std::vector<std::string_view> cells;
};

RowText::RowText(std::unique_ptr<State> state) : state_(std::move(state)) {}
RowText::~RowText() = default;
RowText::RowText(RowText&&) noexcept = default;

StatusOr<RowText> RowText::Create(const DataConfig& config,
                                  const std::vector<std::string>& columns) {
  auto state = std::make_unique<State>(config);
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
  const bool lacks_labels = state.cells.size() + state.labels == state.columns.size();
  const bool fits = lacks_labels || state.cells.size() == state.columns.size();
  for (const size_t column : state.chosen) {
    const auto is_label = [](const ColumnConfig& one) {
      return one.kind == ColumnConfig::Kind::kLabel;
    };
    const auto labels_before = static_cast<size_t>(std::count_if(
        state.columns.begin(), state.columns.begin() + static_cast<ptrdiff_t>(column), is_label));
    if (fits && !(lacks_labels && is_label(state.columns[column]))) {
      AppendCsvCell(state.cells[column - (lacks_labels ? labels_before : 0)], text);
    }
    text.push_back(',');
  }
}

void AppendCsvCell(std::string_view cell, std::string& text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  if (cell.find_first_of(",\"\r\n") == cell.npos &&
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
