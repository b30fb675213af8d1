#include "data/reading/line_cells.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "data/reading/csv_cells.h"
#include "data/reading/row_parser.h"

namespace simurgh {

struct LineCells::State {
  explicit State(const DataConfig& config)
      : columns(ColumnsOf(config)),
        is_csv(config.format == DataConfig::Format::kCsv),
        csv(config.csv.separator),
        splitter(NewCellSplitter(config)),
        configured(ColumnsInOrder(columns, /*with_labels=*/true)),
        unlabelled(ColumnsInOrder(columns, /*with_labels=*/false)) {}

  const std::vector<ColumnConfig> columns;
  const bool is_csv;
  CsvSplitter csv;
  const std::unique_ptr<CellSplitter> splitter;  // Null for CSV and Criteo.
  const FileColumns configured;
  const FileColumns unlabelled;
  std::vector<std::string_view> texts;  // Cells of a line of the Criteo layout.
  std::vector<Cell> cells;
};

LineCells::LineCells(const DataConfig& config) : state_(std::make_unique<State>(config)) {}
LineCells::~LineCells() = default;
LineCells::LineCells(LineCells&&) noexcept = default;

StatusOr<std::span<const Cell>> LineCells::Split(std::string_view line,
                                                 const FileColumns* columns) {
  State& state = *state_;
  state.cells.clear();
  if (state.splitter != nullptr) {
    SIMURGH_RETURN_IF_ERROR(state.splitter->Split(line));
    for (size_t c = 0; c < state.columns.size(); ++c) {
      if (!IsTarget(state.columns[c].kind)) state.cells.push_back(state.splitter->cells()[c]);
    }
    return state.cells;
  }
  const std::vector<std::string_view>* texts = &state.texts;
  if (state.is_csv) {
    SIMURGH_ASSIGN_OR_RETURN(texts, state.csv.Split(line));
  } else {
    state.texts.clear();
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find('\t', begin), line.size());
      state.texts.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  if (columns == nullptr) {
    columns = texts->size() == state.unlabelled.width ? &state.unlabelled : &state.configured;
  }
  SIMURGH_RETURN_IF_ERROR(CheckLength(texts->size(), columns->width));
  for (size_t c = 0; c < state.columns.size(); ++c) {
    if (IsTarget(state.columns[c].kind)) continue;
    Cell& cell = state.cells.emplace_back();
    if (columns->cells[c] == FileColumns::kAbsent) continue;
    cell = {.kind = Cell::Kind::kText, .text = (*texts)[columns->cells[c]]};
  }
  return state.cells;
}

}  // namespace simurgh
