#include "data/file_batch_reader.h"

#include <string>
#include <utility>

#include "absl/strings/str_format.h"

#include "data/byte_stream.h"
#include "data/process/negative_sampling.h"
#include "simurgh/base/log.h"

namespace simurgh {
namespace {

constexpr uint64_t kLoggedRows = 10;  // Bad ones of a reader that are logged.

}  // namespace

FileBatchReader::FileBatchReader(const DataConfig& config, std::vector<std::string> files,
                                 std::unique_ptr<RowParser> parser, BatchBuilder builder,
                                 size_t batch_size, const ReadOptions& options)
    : files_(std::move(files)),
      header_(config.format == DataConfig::Format::kCsv && config.csv.header),
      batch_size_(batch_size),
      bad_rows_(config.bad_rows),
      max_bad_rows_(config.max_bad_rows),
      options_(options),
      parser_(std::move(parser)),
      builder_(std::move(builder)) {}

StatusOr<std::unique_ptr<FileBatchReader>> FileBatchReader::Open(
    const DataConfig& config, const ConsumerFactory& sink, const std::vector<std::string>& files,
    BatchBuilder builder, size_t batch_size, const ReadOptions& options) {
  const bool is_csv = config.format == DataConfig::Format::kCsv;
  SIMURGH_ASSIGN_OR_RETURN(
      auto parser, is_csv ? NewCsvParser(config.csv, sink) : NewCriteoParser(config.criteo, sink));
  std::unique_ptr<FileBatchReader> reader(new FileBatchReader(
      config, files, std::move(parser), std::move(builder), batch_size, options));
  SIMURGH_RETURN_IF_ERROR(reader->OpenNextFile());
  return reader;
}

Status FileBatchReader::OpenNextFile() {
  lines_.reset();
  if (opened_ == files_.size()) return absl::OkStatus();
  SIMURGH_ASSIGN_OR_RETURN(auto stream, OpenByteStream(files_[opened_]));
  ++opened_;
  lines_ = std::make_unique<LineReader>(std::move(stream));
  return header_ ? AtLine(lines_->Next().status()) : absl::OkStatus();
}

Status FileBatchReader::AtLine(const Status& status) const {
  if (status.ok()) return status;
  return Annotate(status, absl::StrFormat("%s:%d", files_[opened_ - 1], lines_->line_number()));
}

StatusOr<std::optional<Line>> FileBatchReader::NextLine() {
  while (lines_ != nullptr) {
    auto line = lines_->Next();
    if (!line.ok()) return AtLine(line.status());
    if (line->has_value()) return line;
    SIMURGH_RETURN_IF_ERROR(OpenNextFile());
  }
  return std::nullopt;
}

Status FileBatchReader::Skip(const Status& problem) {
  const Status where = AtLine(problem);
  const bool may_skip = bad_rows_ == DataConfig::BadRows::kSkip && absl::IsInvalidArgument(problem);
  if (!may_skip) return where;
  if (++skipped_rows_ > max_bad_rows_) {
    return Annotate(where, absl::StrFormat("more than %d bad rows", max_bad_rows_));
  }
  if (skipped_rows_ <= kLoggedRows) spdlog::warn("row left out: {}", std::string(where.message()));
  if (skipped_rows_ == kLoggedRows) spdlog::warn("further bad rows are counted only");
  return absl::OkStatus();
}

Status FileBatchReader::Parse(const Line& line) {
  if (line.whole) return parser_->Parse(line.text, builder_);
  return absl::InvalidArgumentError(absl::StrFormat(
      "the line is longer than %d bytes; shorten it, or see whether this is a text file",
      kMaxLineBytes));
}

Status FileBatchReader::Take(const Line& line) {
  const uint64_t row = rows_++;
  const uint64_t piece = row / batch_size_ / options_.piece_batches;
  if (piece % options_.shares != options_.share) return absl::OkStatus();
  const Status parsed = Parse(line);
  if (!parsed.ok()) {
    builder_.AbandonSample();
    return Skip(parsed);
  }
  if (!builder_.positive() && !KeepsNegative(options_, row)) {
    builder_.AbandonSample();
  } else {
    builder_.EndSample();
  }
  return absl::OkStatus();
}

StatusOr<std::optional<Batch>> FileBatchReader::Next() {
  while (builder_.size() < batch_size_) {
    SIMURGH_ASSIGN_OR_RETURN(const auto line, NextLine());
    if (!line.has_value()) break;
    const Line& row = *line;
    // Files often end in an empty line.
    if (row.whole && row.text.find_first_not_of(' ') == row.text.npos) continue;
    SIMURGH_RETURN_IF_ERROR(Take(row));
  }
  if (builder_.size() == 0) return std::nullopt;
  SIMURGH_ASSIGN_OR_RETURN(Batch batch, builder_.Build());
  return batch;
}

}  // namespace simurgh
