#include "data/reading/row_text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/log.h"
#include "config/uri.h"
#include "data/reading/bad_row_file.h"
#include "data/reading/csv_cells.h"
#include "data/reading/row_parser.h"

namespace simurgh {

namespace {

// Makes skipped columns that are copied readable. Rows of JSON are read without the other skipped
// columns, since these may be objects.
DataConfig WithCopied(DataConfig config, const std::vector<std::string>& copied) {
  for (ColumnConfig& column : config.columns) {
    if (column.kind != ColumnConfig::Kind::kSkip) continue;
    if (std::ranges::find(copied, column.name) != copied.end()) {
      column.kind = ColumnConfig::Kind::kId;
    }
  }
  return config;
}

}  // namespace

struct RowText::State {
  State(const DataConfig& config, const std::vector<std::string>& copied,
        const FileColumns* file_columns)
      : columns(ColumnsOf(config)),
        is_csv(config.format == DataConfig::Format::kCsv),
        splitter(config.csv.separator, /*keeps_blanks=*/true),
        cell_splitter(NewCellSplitter(WithCopied(config, copied))),
        file(file_columns),
        configured(ColumnsInOrder(columns, /*with_labels=*/true)),
        unlabelled(ColumnsInOrder(columns, /*with_labels=*/false)) {}

  // Fills `cells`.
  void Split(std::string_view line) {
    cells.clear();
    if (cell_splitter != nullptr) {
      if (cell_splitter->Split(line).ok()) TakeCells();
      return;
    }
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

  void TakeCells() {
    lists.clear();
    lists.reserve(columns.size());  // Growth would move the texts.
    for (size_t c = 0; c < columns.size(); ++c) {
      const Cell& cell = cell_splitter->cells()[c];
      if (cell.kind == Cell::Kind::kList) {
        const char separator = columns[c].separator == '\0' ? ' ' : columns[c].separator;
        cells.push_back(lists.emplace_back(
            absl::StrJoin(cell.list, std::string(1, separator),
                          [](std::string* out, std::string_view id) { out->append(id); })));
      } else if (cell.kind == Cell::Kind::kNumber) {
        cells.push_back(lists.emplace_back(NumberText(cell.number).view()));
      } else {
        cells.push_back(cell.kind == Cell::Kind::kText ? cell.text : "");
      }
    }
  }

  const std::vector<ColumnConfig> columns;
  const bool is_csv;
  CsvSplitter splitter;
  const std::unique_ptr<CellSplitter> cell_splitter;  // May be null.
  const FileColumns* const file;                      // May be null.
  const FileColumns configured;
  const FileColumns unlabelled;
  std::vector<size_t> chosen;  // Indices of the columns to copy.
  std::vector<std::string_view> cells;
  std::vector<std::string> lists;       // Cells that are lists or numbers, as text.
  std::vector<std::string_view> taken;  // Cells of the chosen columns.
};

RowText::RowText(std::unique_ptr<State> state) : state_(std::move(state)) {}
RowText::~RowText() = default;
RowText::RowText(RowText&&) noexcept = default;

StatusOr<RowText> RowText::Create(const DataConfig& config, const std::vector<std::string>& columns,
                                  const FileColumns* file) {
  auto state = std::make_unique<State>(config, columns, file);
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

std::span<const std::string_view> RowText::Cells(std::string_view line) {
  State& state = *state_;
  state.Split(line);
  const FileColumns* file = state.file;
  if (file == nullptr) {
    file = state.cells.size() == state.unlabelled.width ? &state.unlabelled : &state.configured;
  }
  const bool fits = state.cells.size() == file->width;
  state.taken.clear();
  for (const size_t column : state.chosen) {
    const size_t cell = file->cells[column];
    state.taken.push_back(fits && cell != FileColumns::kAbsent ? state.cells[cell] : "");
  }
  return state.taken;
}

void RowText::AppendCells(std::string_view line, std::string& text) {
  for (const std::string_view cell : Cells(line)) {
    AppendCsvCell(cell, text);
    text.push_back(',');
  }
}

BadRowFile::BadRowFile(const CheckpointConfig& checkpoint, std::string_view process) {
  if (checkpoint.directory.empty()) return;
  std::filesystem::path path = std::filesystem::path(checkpoint.directory).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // The path ends in a slash.
  // The rows of a model in a bucket are in the working directory.
  if (IsUri(checkpoint.directory)) path = path.filename();
  path_ = absl::StrCat(path.string(), ".bad-rows", std::string(process), ".csv");
}

void BadRowFile::Add(std::string_view place, std::string_view reason, std::string_view row) {
  const MutexLock lock(mutex_);
  if (path_.empty() || places_.size() == kRows) return;
  if (std::ranges::find(places_, place) != places_.end()) return;
  const bool is_first = places_.empty();
  places_.emplace_back(place);
  std::string text = is_first ? "place,reason,row\n" : "";
  AppendCsvCell(place, text);
  text.push_back(',');
  AppendCsvCell(reason, text);
  text.push_back(',');
  AppendCsvCell(row.substr(0, kTextBytes), text);
  std::error_code ignored;  // After an error, opening the file fails, too.
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  std::ofstream file(path_, is_first ? std::ios::trunc : std::ios::app);
  if (file << text << "\n" << std::flush) {
    if (is_first) spdlog::warn("the first {} bad rows are in {}", kRows, path_);
    return;
  }
  spdlog::warn("cannot write bad rows to {}: {}", path_, std::strerror(errno));
  path_.clear();
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

DataConfig LinesOf(const DataConfig& config) {
  DataConfig lines = config;
  if (!IsArrow(config)) return lines;
  lines.format = DataConfig::Format::kCsv;
  lines.csv = {.header = true};
  for (ColumnConfig& column : lines.columns) {
    const bool may_have_lists = column.kind == ColumnConfig::Kind::kId || column.width > 1;
    if (may_have_lists && column.separator == '\0') column.separator = kListSeparator;
  }
  return lines;
}

std::string CsvHeader(const DataConfig& config) {
  std::string text;
  for (const ColumnConfig& column : config.columns) {
    AppendCsvCell(HeaderName(column), text, config.csv.separator);
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
