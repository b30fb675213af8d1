#include "simurgh/data/row_lines.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"

#include "data/byte_stream.h"
#include "data/csv_cells.h"
#include "data/process/numbers.h"
#include "data/row_parser.h"
#include "simurgh/base/log.h"
#include "simurgh/config/nearest.h"

namespace simurgh {
namespace {

std::set<std::string_view> NamesOf(const DataConfig& config) {
  std::set<std::string_view> names;
  for (const ColumnConfig& column : config.columns) names.insert(HeaderName(column));
  return names;
}

// Whether the header has the name of a column.
bool HasName(const DataConfig& config, std::string_view header) {
  const std::set<std::string_view> known = NamesOf(config);
  CsvSplitter splitter(config.csv.separator);
  const auto names = splitter.Split(header);
  return names.ok() &&
         std::ranges::any_of(**names, [&](std::string_view name) { return known.contains(name); });
}

bool IsNeeded(const ColumnConfig& column, bool needs_labels) {
  if (IsTarget(column.kind)) return needs_labels;
  return column.kind != ColumnConfig::Kind::kSkip;
}

Status Missing(size_t column, const std::string& name,
               const std::map<std::string_view, size_t>& cells) {
  std::vector<std::string> names;
  for (const auto& [other, cell] : cells) {
    const std::string quoted = Quoted(other);
    names.push_back(quoted.substr(1, quoted.size() - 2));
  }
  return Invalid("the header has no column %s; %s; rename it, or set data.columns.%d.header_name",
                 Quoted(name), NearestRemedy("column", name, names), column);
}

// Refuses columns that the configuration does not have.
Status CheckStrict(const DataConfig& config, const std::vector<std::string_view>& names) {
  const std::set<std::string_view> known = NamesOf(config);
  for (const std::string_view name : names) {
    if (known.contains(name)) continue;
    return Invalid(
        "data.columns has no column %s of the header; add it, with kind: skip if it is unused, "
        "or set data.csv.strict: false",
        Quoted(name));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::optional<FileColumns>> FindColumns(const DataConfig& config, std::string_view header,
                                                 bool needs_labels) {
  CsvSplitter splitter(config.csv.separator);
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<std::string_view>* names, splitter.Split(header));
  std::map<std::string_view, size_t> cells;
  std::set<std::string_view> repeated;
  for (size_t cell = 0; cell < names->size(); ++cell) {
    if (!cells.emplace((*names)[cell], cell).second) repeated.insert((*names)[cell]);
  }
  FileColumns columns{.width = names->size()};
  std::optional<size_t> missing;
  for (size_t i = 0; i < config.columns.size(); ++i) {
    const ColumnConfig& column = config.columns[i];
    const auto found = cells.find(HeaderName(column));
    columns.cells.push_back(found == cells.end() ? FileColumns::kAbsent : found->second);
    if (!IsNeeded(column, needs_labels)) continue;
    if (found == cells.end() && !missing) missing = i;
    if (repeated.contains(HeaderName(column))) {
      return Invalid("the header has column %s twice; rename one", Quoted(HeaderName(column)));
    }
  }
  const auto is_absent = [](size_t cell) { return cell == FileColumns::kAbsent; };
  if (std::ranges::all_of(columns.cells, is_absent) && !config.csv.strict) return std::nullopt;
  if (missing) return Missing(*missing, HeaderName(config.columns[*missing]), cells);
  if (config.csv.strict) SIMURGH_RETURN_IF_ERROR(CheckStrict(config, *names));
  if (columns == ColumnsInOrder(config.columns, /*with_labels=*/true)) return std::nullopt;
  return columns;
}

namespace {

// Whether the first line of a file has names: all needed ones; or no cell has a number or a known
// label where a row needs one; in rows to predict, or if none needs one, half of the names.
bool IsHeader(const DataConfig& config, std::string_view line, bool needs_labels) {
  CsvSplitter splitter(config.csv.separator);
  const auto cells = splitter.Split(line);
  if (!cells.ok()) return false;
  const auto has = [](const std::vector<std::string>& texts, std::string_view cell) {
    return std::ranges::find(texts, cell) != texts.end();
  };
  FileColumns places = ColumnsInOrder(config.columns, needs_labels);
  if ((*cells)->size() != places.width) places = ColumnsInOrder(config.columns, true);
  size_t needed = 0;
  size_t found = 0;
  for (const ColumnConfig& column : config.columns) {
    if (!IsNeeded(column, needs_labels)) continue;
    ++needed;
    found += std::ranges::count(**cells, HeaderName(column)) == 1 ? 1 : 0;
  }
  if (found == needed) return true;
  size_t expected = 0;
  for (size_t i = 0; i < config.columns.size(); ++i) {
    const ColumnConfig& column = config.columns[i];
    using Kind = ColumnConfig::Kind;
    const bool is_number = column.kind == Kind::kDense || column.kind == Kind::kWeight;
    if (!is_number && column.kind != Kind::kLabel) continue;
    if (places.cells[i] >= (*cells)->size()) continue;
    const std::string_view cell = (**cells)[places.cells[i]];
    if (has(config.missing_values, cell) || has(column.positive, cell) ||
        has(column.negative, cell)) {
      return false;
    }
    if (!column.positive.empty() && column.negative.empty()) continue;  // Any text is a label.
    if (column.positive.empty() && ParseNumberCell(cell)) return false;
    ++expected;
  }
  return 2 * found >= needed || (expected > 0 && needs_labels);
}

}  // namespace

Status LongLineError() {
  return Invalid(
      "the line is longer than %d bytes; shorten it, or check whether this is a text file",
      kMaxLineBytes);
}

RowLines::RowLines(const DataConfig& config, std::vector<std::string> files,
                   const ReadOptions& options)
    : files_(std::move(files)),
      identities_(options.identities),
      allow_pipes_(options.allow_pipes),
      needs_labels_(!options.ignore_labels),
      has_comments_(HasPairs(config)) {
  if (config.format != DataConfig::Format::kCsv) return;
  finds_header_ = config.csv.finds_header && !config.csv.header;
  if (finds_header_ || config.csv.header) header_ = config;
  separator_ = config.csv.separator;
}
RowLines::~RowLines() = default;
RowLines::RowLines(RowLines&&) noexcept = default;

StatusOr<RowLines> RowLines::Open(const DataConfig& config, std::vector<std::string> files,
                                  const ReadOptions& options, const ReadPlace& from) {
  RowLines lines(config, std::move(files), options);
  // The first file decides whether there are headers.
  while (lines.finds_header_ && lines.opened_ < std::min<size_t>(from.file, lines.files_.size())) {
    SIMURGH_RETURN_IF_ERROR(lines.OpenNextFile({}));
  }
  lines.first_row_.reset();
  lines.lines_.reset();
  lines.opened_ = std::min<size_t>(from.file, lines.files_.size());
  const auto& [before, text, stream_text, stream_byte] = from.at;
  SIMURGH_RETURN_IF_ERROR(lines.OpenNextFile({before, text, {stream_text, stream_byte}}));
  lines.starts_ = {0};
  for (const std::string& file : lines.files_) {
    std::error_code failed;
    const uintmax_t bytes = std::filesystem::file_size(file, failed);
    if (failed) {  // A pipe.
      lines.starts_.clear();
      break;
    }
    lines.starts_.push_back(lines.starts_.back() + static_cast<double>(bytes));
  }
  return lines;
}

ReadPlace RowLines::place() const {
  if (lines_ == nullptr) return {.file = files_.size()};
  const LinePlace place = lines_->place();
  return {.file = opened_ - 1,
          .at = {place.lines, place.text, place.stream.text, place.stream.file}};
}

Status RowLines::OpenNextFile(const LinePlace& from) {
  if (lines_ != nullptr) SIMURGH_RETURN_IF_ERROR(CheckIdentity());
  lines_.reset();
  if (opened_ == files_.size()) return absl::OkStatus();
  SIMURGH_ASSIGN_OR_RETURN(auto stream, OpenByteStream(files_[opened_], allow_pipes_));
  ++opened_;
  SIMURGH_RETURN_IF_ERROR(CheckIdentity());
  lines_ = std::make_unique<LineReader>(std::move(stream));
  if (header_) SIMURGH_RETURN_IF_ERROR(AtLine(ReadHeader()));
  if (from.text == 0) return absl::OkStatus();
  SIMURGH_ASSIGN_OR_RETURN(stream, OpenByteStream(file(), allow_pipes_, from.stream));
  lines_ = std::make_unique<LineReader>(std::move(stream));
  first_row_.reset();
  return Annotate(lines_->SkipTo(from), file());
}

Status RowLines::ReadHeader() {
  columns_.reset();
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> line, NextLine());
  if (!line) return absl::OkStatus();
  if (finds_header_ && !FindHeader(*line)) {
    first_row_ = line;
    return absl::OkStatus();
  }
  if (!line->whole) return LongLineError();
  SIMURGH_ASSIGN_OR_RETURN(columns_, FindColumns(*header_, line->text, needs_labels_));
  if (columns_ || HasName(*header_, line->text)) {
    has_names_ = true;
    return absl::OkStatus();
  }
  if (has_names_) {
    return Invalid(
        "the header has none of the names in data.columns; an earlier file has them; add such "
        "a header");
  }
  if (line->text.empty()) return absl::OkStatus();
  spdlog::warn("{}: the header has none of the names in data.columns; columns are by position",
               file());
  return absl::OkStatus();
}

bool RowLines::FindHeader(const Line& line) {
  finds_header_ = false;
  const bool is_header = line.whole && IsHeader(*header_, line.text, needs_labels_);
  if (!is_header) {
    header_.reset();
    return false;
  }
  static std::atomic<bool> is_said = false;  // Every reading finds it again.
  if (is_said.exchange(true)) return true;
  spdlog::info(
      "{}: the first line has no number where data.columns needs one, so it is a header; "
      "data.csv.header: false makes it a row",
      file());
  return true;
}

StatusOr<std::optional<Line>> RowLines::NextLine() {
  SIMURGH_ASSIGN_OR_RETURN(std::optional<Line> line, lines_->Next());
  if (!line || !separator_) return line;
  if (line->text.find('"') == line->text.npos) return line;
  QuoteScan scan(*separator_);
  if (!scan.IsOpen(line->text)) return line;
  for (size_t bytes = line->text.size();;) {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> more, lines_->Extend());
    if (!more) break;
    const bool is_open = scan.IsOpen(more->text.substr(bytes));
    bytes = more->text.size();
    if (is_open) continue;
    if (CsvSplitter(*separator_).Split(more->text).ok()) return more;
    break;
  }
  return lines_->Shorten();
}

Status RowLines::CheckIdentity() const {
  return identities_ == nullptr ? absl::OkStatus() : identities_->Check(file());
}

double RowLines::part() const {
  if (starts_.empty() || starts_.back() == 0) return 0;
  if (lines_ == nullptr) return 1;
  return std::min((starts_[opened_ - 1] + lines_->file_bytes()) / starts_.back(), 1.0);
}

size_t RowLines::line_number() const { return lines_->line_number(); }

Status RowLines::AtLine(const Status& status) const {
  if (status.ok()) return status;
  return Annotate(status, absl::StrFormat("%s:%d", file(), line_number()));
}

StatusOr<std::optional<Line>> RowLines::Next() {
  while (lines_ != nullptr) {
    StatusOr<std::optional<Line>> line =
        first_row_ ? std::exchange(first_row_, std::nullopt) : NextLine();
    if (!line.ok()) {
      SIMURGH_RETURN_IF_ERROR(CheckIdentity());  // A change is the likely cause.
      return AtLine(line.status());
    }
    if (!line->has_value()) {
      SIMURGH_RETURN_IF_ERROR(OpenNextFile({}));
      continue;
    }
    // Files often end in an empty line.
    const std::string_view text = (*line)->text;
    const size_t begin = text.find_first_not_of(" \t");
    const bool is_blank = text.find_first_not_of(' ') == text.npos;
    const bool is_comment = has_comments_ && begin != text.npos && text[begin] == '#';
    if ((*line)->whole && (is_blank || is_comment)) continue;
    return line;
  }
  return std::nullopt;
}

}  // namespace simurgh
