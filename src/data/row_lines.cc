#include "simurgh/data/row_lines.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"

#include "data/byte_stream.h"
#include "data/csv_cells.h"
#include "data/invalid.h"
#include "data/line_reader.h"

namespace simurgh {
namespace {

// Refuses a header with all columns, labels apart, in another order. Other names in a header may be
// other words for the same columns.
Status CheckHeader(const CsvConfig& config, std::string_view line) {
  CsvSplitter splitter(config.separator);
  const StatusOr<const std::vector<std::string_view>*> names = splitter.Split(line);
  if (!names.ok()) return absl::OkStatus();
  std::vector<std::string_view> wanted;
  for (const ColumnConfig& column : config.columns) {
    if (std::ranges::find(**names, column.name) != (*names)->end()) {
      wanted.push_back(column.name);
    } else if (column.kind != ColumnConfig::Kind::kLabel) {
      return absl::OkStatus();
    }
  }
  size_t next = 0;
  for (const std::string_view name : **names) {
    if (std::ranges::find(wanted, name) == wanted.end()) continue;
    if (next == wanted.size()) break;
    if (name != wanted[next]) {
      return Invalid(
          "the header has '%s' where data.csv.columns has '%s'; reorder the columns of the file",
          name, wanted[next]);
    }
    ++next;
  }
  return absl::OkStatus();
}

}  // namespace

Status LongLineError() {
  return Invalid(
      "the line is longer than %d bytes; shorten it, or check whether this is a text file",
      kMaxLineBytes);
}

RowLines::RowLines(std::optional<CsvConfig> header, std::vector<std::string> files,
                   FileIdentities* identities, bool allow_pipes)
    : header_(std::move(header)),
      files_(std::move(files)),
      identities_(identities),
      allow_pipes_(allow_pipes) {}
RowLines::~RowLines() = default;
RowLines::RowLines(RowLines&&) noexcept = default;

StatusOr<RowLines> RowLines::Open(const DataConfig& config, std::vector<std::string> files,
                                  FileIdentities* identities, bool allow_pipes) {
  const bool has_header = config.format == DataConfig::Format::kCsv && config.csv.header;
  RowLines lines(has_header ? std::optional(config.csv) : std::nullopt, std::move(files),
                 identities, allow_pipes);
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
  return header_ ? AtLine(PassHeader()) : absl::OkStatus();
}

Status RowLines::PassHeader() {
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> line, lines_->Next());
  return line ? CheckHeader(*header_, line->text) : absl::OkStatus();
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
