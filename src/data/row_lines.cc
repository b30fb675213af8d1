#include "simurgh/data/row_lines.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"

#include "data/byte_stream.h"
#include "data/csv_cells.h"
#include "data/invalid.h"
#include "data/line_reader.h"
#include "data/row_parser.h"
#include "simurgh/base/log.h"
#include "simurgh/config/nearest.h"

namespace simurgh {
namespace {

const std::string& HeaderName(const ColumnConfig& column) {
  return column.header_name.empty() ? column.name : column.header_name;
}

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

Status LongLineError() {
  return Invalid(
      "the line is longer than %d bytes; shorten it, or check whether this is a text file",
      kMaxLineBytes);
}

RowLines::RowLines(std::optional<DataConfig> header, std::vector<std::string> files,
                   const ReadOptions& options)
    : header_(std::move(header)),
      files_(std::move(files)),
      identities_(options.identities),
      allow_pipes_(options.allow_pipes),
      needs_labels_(!options.ignore_labels) {}
RowLines::~RowLines() = default;
RowLines::RowLines(RowLines&&) noexcept = default;

StatusOr<RowLines> RowLines::Open(const DataConfig& config, std::vector<std::string> files,
                                  const ReadOptions& options) {
  const bool has_header = config.format == DataConfig::Format::kCsv && config.csv.header;
  RowLines lines(has_header ? std::optional(config) : std::nullopt, std::move(files), options);
  SIMURGH_RETURN_IF_ERROR(lines.OpenNextFile());
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

Status RowLines::OpenNextFile() {
  if (lines_ != nullptr) SIMURGH_RETURN_IF_ERROR(CheckIdentity());
  lines_.reset();
  if (opened_ == files_.size()) return absl::OkStatus();
  SIMURGH_ASSIGN_OR_RETURN(auto stream, OpenByteStream(files_[opened_], allow_pipes_));
  ++opened_;
  SIMURGH_RETURN_IF_ERROR(CheckIdentity());
  lines_ = std::make_unique<LineReader>(std::move(stream));
  return header_ ? AtLine(ReadHeader()) : absl::OkStatus();
}

Status RowLines::ReadHeader() {
  columns_.reset();
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> line, lines_->Next());
  if (!line) return absl::OkStatus();
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
    auto line = lines_->Next();
    if (!line.ok()) {
      SIMURGH_RETURN_IF_ERROR(CheckIdentity());  // A change is the likely cause.
      return AtLine(line.status());
    }
    if (!line->has_value()) {
      SIMURGH_RETURN_IF_ERROR(OpenNextFile());
      continue;
    }
    // Files often end in an empty line.
    const std::string_view text = (*line)->text;
    if ((*line)->whole && text.find_first_not_of(' ') == text.npos) continue;
    return line;
  }
  return std::nullopt;
}

}  // namespace simurgh
