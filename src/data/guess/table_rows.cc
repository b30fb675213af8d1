#include "data/guess/table_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "data/guess/data_format.h"
#include "data/processing/feature_consumer.h"
#include "data/reading/arrow_source.h"
#include "data/reading/encoding.h"
#include "data/reading/json_events.h"
#include "data/reading/row_text.h"

namespace simurgh {
namespace {

using Format = DataConfig::Format;
using Kind = ColumnConfig::Kind;

constexpr std::string_view kSeparators = ",;\t|";
constexpr char kLastSeparator = ':';  // Tried after all others, since times have it.
constexpr size_t kFirstRows = 1'000;  // Rows to find the format in.

// Returns the number of cells of a line; 0 if it cannot be split.
size_t CellsOf(std::string_view line, char separator) {
  CsvSplitter splitter(separator);
  const auto cells = splitter.Split(line);
  return cells.ok() ? (*cells)->size() : 0;
}

// Returns the separator that gives most lines the number of cells of the first one, more than one.
// Ties: the most cells. Nothing if none gives more than one cell.
std::optional<char> FindSeparator(const std::vector<std::string>& lines) {
  std::optional<char> best;
  std::pair<uint64_t, size_t> most;
  for (const char separator : kSeparators) {
    const size_t cells = CellsOf(lines[0], separator);
    if (cells < 2) continue;
    const auto equal = static_cast<uint64_t>(std::ranges::count_if(
        lines, [&](const std::string& line) { return CellsOf(line, separator) == cells; }));
    if (std::pair(equal, cells) <= most) continue;
    most = {equal, cells};
    best = separator;
  }
  if (!best && CellsOf(lines[0], kLastSeparator) > 1) return kLastSeparator;
  return best;
}

bool IsText(std::string_view line) {
  return std::ranges::none_of(line, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < ' ' && c != '\t' && c != '\r' && c != '\f' && c != '\v';
  });
}

// Collects the keys of JSON objects.
class KeyCollector final : public JsonEvents {
 public:
  // Adds the keys of a row. Errors: those of ParseJson.
  Status Add(std::string_view row) {
    depth_ = 0;
    return ParseJson(row, *this);
  }

  std::vector<ColumnConfig> TakeColumns() { return std::move(columns_); }

 private:
  // An object in a row, and an array in an array, are no cell.
  bool BeginObject() override {
    if (++depth_ > 1) columns_[column_].kind = Kind::kSkip;
    return true;
  }
  bool EndObject() override {
    --depth_;
    return true;
  }
  bool BeginArray() override {
    if (++depth_ > 2) columns_[column_].kind = Kind::kSkip;
    return depth_ > 1;
  }
  bool EndArray() override {
    --depth_;
    return true;
  }
  bool Key(std::string_view key) override {
    if (depth_ > 1) return true;
    const auto [found, is_new] = places_.emplace(std::string(key), columns_.size());
    column_ = found->second;
    if (is_new) columns_.push_back({.name = std::string(key), .kind = Kind::kId});
    return true;
  }
  bool Scalar(const JsonScalar& /*value*/) override { return depth_ > 0; }

  std::vector<ColumnConfig> columns_;
  std::map<std::string, size_t> places_;
  size_t depth_ = 0;
  size_t column_ = 0;  // Column of the last key of the row.
};

StatusOr<std::vector<ColumnConfig>> JsonColumns(const DataConfig& table, const std::string& path,
                                                uint64_t max_rows) {
  SIMURGH_ASSIGN_OR_RETURN(RowLines lines, RowLines::Open(table, {path}));
  KeyCollector keys;
  Status first_problem;
  for (uint64_t rows = 0; rows < max_rows; ++rows) {
    SIMURGH_ASSIGN_OR_RETURN(const auto line, lines.Next());
    if (!line) break;
    const Status added = line->whole ? keys.Add(line->text) : LongLineError();
    if (first_problem.ok()) first_problem = lines.AtLine(added);
  }
  std::vector<ColumnConfig> columns = keys.TakeColumns();
  if (columns.empty() && !first_problem.ok()) return first_problem;
  return columns;
}

// Returns the number of fields in all rows.
StatusOr<uint32_t> LibffmFields(const DataConfig& table, const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(RowLines lines, RowLines::Open(table, {path}));
  uint32_t fields = 1;
  for (;;) {
    SIMURGH_ASSIGN_OR_RETURN(const auto line, lines.Next());
    if (!line) return fields;
    fields = std::max(fields, FieldsOf(line->text));
  }
}

// Sets the table's settings for text files of its format, but not the names in a header.
Status SetColumns(const std::vector<std::string>& first, const std::string& path, uint64_t max_rows,
                  Columns columns, DataConfig& table) {
  switch (table.format) {
    case Format::kCsv: {
      const std::optional<char> separator = FindSeparator(first);
      if (!separator && columns == Columns::kOne) return absl::OkStatus();
      if (!separator) {
        return absl::InvalidArgumentError(
            absl::StrCat(path,
                         ":1: one column; separate the cells of a row by ',', ';', '|' or a tab, "
                         "and give a label column and others"));
      }
      table.csv.separator = *separator;
      return absl::OkStatus();
    }
    case Format::kCriteo: {
      const size_t cells = CellsOf(first[0], '\t');
      table.csv.separator = '\t';
      table.criteo.labels = static_cast<uint32_t>(cells - kCriteoDenseColumns - kCriteoIdColumns);
      table.columns = ColumnsOf(table);
      return absl::OkStatus();
    }
    case Format::kJson: {
      SIMURGH_ASSIGN_OR_RETURN(table.columns, JsonColumns(table, path, max_rows));
      return absl::OkStatus();
    }
    case Format::kLibffm: {
      SIMURGH_ASSIGN_OR_RETURN(table.libffm_fields, LibffmFields(table, path));
      table.columns = PairColumns(table);
      break;
    }
    case Format::kLibsvm:
      table.columns = PairColumns(table);
      break;
    case Format::kParquet:
    case Format::kArrow:
      return absl::OkStatus();
  }
  // Labels of -1 stay numbers until all labels are known.
  table.columns[0].label_values = ColumnConfig::LabelValues::kNumbers;
  return absl::OkStatus();
}

}  // namespace

StatusOr<DataConfig> FindTable(const std::string& path, uint64_t max_rows, Columns columns) {
  DataConfig table;
  auto format = FormatOfName(path);
  if (!format.ok()) return Annotate(format.status(), path);
  table.format = *format;
  if (IsArrow(table)) {
    SIMURGH_ASSIGN_OR_RETURN(table.columns, ArrowColumns(table.format, path));
    return table;
  }
  SIMURGH_ASSIGN_OR_RETURN(RowLines lines, RowLines::Open(DataConfig(), {path}));
  SIMURGH_ASSIGN_OR_RETURN(std::optional<Line> line, lines.Next());
  if (!line) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": empty; give a CSV file with a header and rows"));
  }
  if (!line->whole) return lines.AtLine(LongLineError());
  if (!IsText(line->text)) {
    return lines.AtLine(absl::InvalidArgumentError(
        "this is no text in UTF-8; give a CSV file, which may be compressed by gzip or zstd. If it "
        "is text in UTF-16: iconv -f UTF-16LE -t UTF-8 in.csv > out.csv"));
  }
  std::vector<std::string> first;
  while (line) {
    first.emplace_back(line->text);
    if (first.size() > std::min<uint64_t>(kFirstRows, max_rows)) break;
    SIMURGH_ASSIGN_OR_RETURN(line, lines.Next());
  }
  format = FormatOfLines(first);
  if (!format.ok()) return Annotate(format.status(), path);
  table.format = *format;
  SIMURGH_RETURN_IF_ERROR(SetColumns(first, path, max_rows, columns, table));
  return table;
}

namespace {

// A consumer for rows of which only the text is needed.
class NoConsumer final : public RowConsumer {
 public:
  bool Reads(size_t /*column*/) const override { return false; }
  Status Consume(const RowCells& /*cells*/, BatchBuilder& /*builder*/) override {
    return absl::OkStatus();
  }
};

}  // namespace

struct TableLines::Blocks {
  std::unique_ptr<RowSource> source;
  std::unique_ptr<RowBlock> block;
  std::unique_ptr<BlockParser> parser;
  size_t row = 0;  // Next row of the block.
  std::string text;
};

TableLines::TableLines(RowLines lines) : lines_(std::move(lines)) {}
TableLines::TableLines(std::unique_ptr<Blocks> blocks) : blocks_(std::move(blocks)) {}
TableLines::~TableLines() = default;
TableLines::TableLines(TableLines&&) noexcept = default;

StatusOr<TableLines> TableLines::Open(const DataConfig& table, const std::string& path) {
  if (!IsArrow(table)) {
    SIMURGH_ASSIGN_OR_RETURN(RowLines lines, RowLines::Open(table, {path}));
    TableLines all(std::move(lines));
    if (HasHeader(table)) all.separator_ = table.csv.separator;
    return all;
  }
  auto blocks = std::make_unique<Blocks>();
  SIMURGH_ASSIGN_OR_RETURN(blocks->source,
                           OpenArrowSource(table, NamedFiles(table.format, path), ReadOptions()));
  blocks->block = blocks->source->NewBlock();
  blocks->parser = blocks->source->NewParser(std::make_unique<NoConsumer>());
  return TableLines(std::move(blocks));
}

StatusOr<std::optional<Line>> TableLines::Next() {
  if (lines_) {
    for (;;) {
      SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> line, lines_->Next());
      const bool is_blank = separator_ != '\0' && line && line->whole &&
                            line->text.find_first_not_of(separator_) == line->text.npos;
      if (!is_blank) return line;
      ++blank_rows_;
    }
  }
  Blocks& blocks = *blocks_;
  if (blocks.row >= blocks.block->rows) {
    SIMURGH_ASSIGN_OR_RETURN(const bool has_rows, blocks.source->Read(*blocks.block));
    if (!has_rows) {
      blocks.block->rows = 0;
      return std::nullopt;
    }
    blocks.row = 0;
    SIMURGH_RETURN_IF_ERROR(blocks.parser->Take(*blocks.block));
  }
  blocks.text = blocks.parser->Text(blocks.row++);
  return Line{.text = blocks.text};
}

Status TableLines::AtLine(const Status& status) const {
  if (lines_) return lines_->AtLine(status);
  return status.ok() ? status : Annotate(status, blocks_->parser->Place(blocks_->row - 1));
}

TableCells::TableCells(const DataConfig& table)
    : has_pairs_(HasPairs(table)),
      csv_(table.csv.separator),
      splitter_(NewCellSplitter(table)),
      cells_(table.columns.size()),
      lists_(table.columns.size()) {
  if (!IsArrow(table)) return;
  for (const ColumnConfig& column : table.columns) {
    are_lists_.push_back(column.separator == kListSeparator);
  }
}

StatusOr<const std::vector<std::string_view>*> TableCells::Split(std::string_view line) {
  if (const std::string problem = EncodingProblem(line); !problem.empty()) {
    return absl::InvalidArgumentError(problem);
  }
  if (splitter_ == nullptr) {
    SIMURGH_ASSIGN_OR_RETURN(const auto* const cells, csv_.Split(line));
    if (are_lists_.empty()) return cells;
    cells_ = *cells;
    for (size_t c = 0; c < std::min(cells_.size(), are_lists_.size()); ++c) {
      if (!are_lists_[c] || cells_[c].empty()) continue;
      lists_[c] = absl::StrCat(std::string(cells_[c]), std::string(1, kListSeparator));
      cells_[c] = lists_[c];
    }
    return &cells_;
  }
  SIMURGH_RETURN_IF_ERROR(splitter_->Split(line));
  for (size_t c = 0; c < cells_.size(); ++c) {
    const Cell& cell = splitter_->cells()[c];
    cells_[c] = cell.kind == Cell::Kind::kText ? cell.text : std::string_view();
    if (cell.kind != Cell::Kind::kList) continue;
    lists_[c].clear();
    for (const std::string_view id : cell.list) {
      lists_[c] += has_pairs_ ? id.substr(0, id.find(':')) : id;
      lists_[c].push_back(kListSeparator);
    }
    cells_[c] = lists_[c];
  }
  return &cells_;
}

}  // namespace simurgh
