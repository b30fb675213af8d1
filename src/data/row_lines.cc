#include "simurgh/data/row_lines.h"

#include <utility>

#include "absl/strings/str_format.h"

#include "data/byte_stream.h"
#include "data/invalid.h"
#include "data/line_reader.h"

namespace simurgh {

Status LongLineError() {
  return Invalid(
      "the line is longer than %d bytes; shorten it, or check whether this is a text file",
      kMaxLineBytes);
}

RowLines::RowLines(bool has_header, std::vector<std::string> files, FileIdentities* identities,
                   bool allow_pipes)
    : has_header_(has_header),
      files_(std::move(files)),
      identities_(identities),
      allow_pipes_(allow_pipes) {}
RowLines::~RowLines() = default;
RowLines::RowLines(RowLines&&) noexcept = default;

StatusOr<RowLines> RowLines::Open(const DataConfig& config, std::vector<std::string> files,
                                  FileIdentities* identities, bool allow_pipes) {
  const bool has_header = config.format == DataConfig::Format::kCsv && config.csv.header;
  RowLines lines(has_header, std::move(files), identities, allow_pipes);
  SIMURGH_RETURN_IF_ERROR(lines.OpenNextFile());
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
  return has_header_ ? AtLine(lines_->Next().status()) : absl::OkStatus();
}

Status RowLines::CheckIdentity() const {
  return identities_ == nullptr ? absl::OkStatus() : identities_->Check(file());
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
