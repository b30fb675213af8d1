#include "data/reading/row_lines.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"

#include "base/invalid.h"
#include "base/log.h"
#include "config/uri.h"
#include "data/reading/byte_stream.h"
#include "data/reading/csv_cells.h"
#include "data/reading/csv_header.h"
#include "data/reading/remote_file.h"
#include "data/reading/row_text.h"

namespace simurgh {
namespace {

bool IsBlank(std::string_view line) { return line.find_first_not_of(' ') == line.npos; }

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
  std::vector<uint64_t> sizes;
  SIMURGH_ASSIGN_OR_RETURN(files, WithRemoteFiles(files, &sizes));
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
  for (size_t i = 0; i < lines.files_.size(); ++i) {
    const std::string& file = lines.files_[i];
    std::error_code failed;
    const uintmax_t bytes = IsUri(file) ? sizes[i] : std::filesystem::file_size(file, failed);
    if (failed) {  // The file is a pipe.
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
  std::optional<Line> line;
  do {
    SIMURGH_ASSIGN_OR_RETURN(line, NextLine());
    if (!line) return absl::OkStatus();
  } while (line->whole && IsBlank(line->text));
  SIMURGH_ASSIGN_OR_RETURN(const bool is_header, IsHeader(*line));
  if (!is_header) {
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
  spdlog::warn("{}: the header has none of the names in data.columns; columns are by position",
               file());
  return absl::OkStatus();
}

StatusOr<bool> RowLines::IsHeader(const Line& line) {
  const bool decides_for_all = std::exchange(finds_header_, false);
  if (!decides_for_all && (!header_->csv.header || has_names_ || !line.whole)) return true;
  const FirstLine found =
      line.whole ? FirstLineOf(*header_, line.text, needs_labels_) : FirstLine::kRow;
  if (found == FirstLine::kUnclear) {
    return Invalid(
        "the first line has no numbers, and none of the names %s; correct it, or set "
        "data.csv.header: false%s",
        CsvHeader(*header_),
        decides_for_all ? " for a row, true for a header in this order" : " for a row");
  }
  if (found == FirstLine::kRow) {
    if (decides_for_all) {
      header_.reset();
    } else {
      spdlog::warn("{}: the first line is a row, not a header; columns are by position", file());
    }
    return false;
  }
  if (!decides_for_all) return true;
  static std::atomic<bool> is_said = false;  // Every reading finds the header again.
  if (is_said.exchange(true)) return true;
  spdlog::info(
      "{}: the first line has names, or no number where data.columns needs one, so it is a header; "
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
    const bool is_comment = has_comments_ && begin != text.npos && text[begin] == '#';
    if ((*line)->whole && (IsBlank(text) || is_comment)) continue;
    return line;
  }
  return std::nullopt;
}

}  // namespace simurgh
