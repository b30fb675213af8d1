#include "simurgh/data/batch_reader.h"

#include <utility>

#include "absl/strings/str_format.h"

#include "data/byte_stream.h"
#include "data/line_reader.h"
#include "data/row_parser.h"

namespace simurgh {
namespace {

class FileBatchReader final : public BatchReader {
 public:
  FileBatchReader(std::vector<std::string> files, bool header, size_t batch_size,
                  std::unique_ptr<RowParser> parser, BatchBuilder builder)
      : files_(std::move(files)),
        header_(header),
        batch_size_(batch_size),
        parser_(std::move(parser)),
        builder_(std::move(builder)) {}

  // Opens the next file; without one, the end is reached.
  Status OpenNextFile();

  StatusOr<std::optional<Batch>> Next() override;

 private:
  // The next line of the files in turn, headers left out; nothing at the end of the last.
  StatusOr<std::optional<std::string_view>> NextLine();
  Status AtLine(const Status& status) const;

  std::vector<std::string> files_;
  bool header_;
  size_t batch_size_;
  std::unique_ptr<RowParser> parser_;
  BatchBuilder builder_;
  size_t opened_ = 0;                  // Files opened so far.
  std::unique_ptr<LineReader> lines_;  // Of the last one opened; null at the end.
};

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

StatusOr<std::optional<std::string_view>> FileBatchReader::NextLine() {
  while (lines_ != nullptr) {
    auto line = lines_->Next();
    if (!line.ok()) return AtLine(line.status());
    if (line->has_value()) return line;
    SIMURGH_RETURN_IF_ERROR(OpenNextFile());
  }
  return std::nullopt;
}

StatusOr<std::optional<Batch>> FileBatchReader::Next() {
  while (builder_.size() < batch_size_) {
    SIMURGH_ASSIGN_OR_RETURN(const auto line, NextLine());
    if (!line.has_value()) break;
    if (line->find_first_not_of(' ') == line->npos) continue;  // Files often end in an empty line.
    const Status parsed = parser_->Parse(*line, builder_);
    if (!parsed.ok()) {
      builder_.AbandonSample();
      return AtLine(parsed);
    }
    builder_.EndSample();
  }
  if (builder_.size() == 0) return std::nullopt;
  SIMURGH_ASSIGN_OR_RETURN(Batch batch, builder_.Build());
  return batch;
}

}  // namespace

std::vector<std::string> DenseColumns(const DataConfig& config) {
  if (config.format == DataConfig::Format::kCriteo) return CriteoDenseColumns();
  std::vector<std::string> names;
  for (const ColumnConfig& column : config.csv.columns) {
    if (column.kind == ColumnConfig::Kind::kDense) names.push_back(column.name);
  }
  return names;
}

StatusOr<std::unique_ptr<BatchReader>> OpenBatchReader(const DataConfig& config,
                                                       const std::vector<FeatureConfig>& features,
                                                       const std::vector<std::string>& files,
                                                       size_t batch_size) {
  if (batch_size == 0 || batch_size > kMaxBatchSamples) {
    return absl::InvalidArgumentError(
        absl::StrFormat("batch size %d, must be 1 to %d", batch_size, kMaxBatchSamples));
  }
  const bool is_csv = config.format == DataConfig::Format::kCsv;
  SIMURGH_ASSIGN_OR_RETURN(auto parser,
                           is_csv ? NewCsvParser(config.csv, features) : NewCriteoParser(features));
  auto reader = std::make_unique<FileBatchReader>(
      files, is_csv && config.csv.header, batch_size, std::move(parser),
      BatchBuilder(features.size(), DenseColumns(config).size()));
  SIMURGH_RETURN_IF_ERROR(reader->OpenNextFile());
  return reader;
}

}  // namespace simurgh
