#include "data/file_batch_reader.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "data/invalid.h"
#include "data/process/negative_sampling.h"
#include "simurgh/base/log.h"
#include "simurgh/data/row_text.h"

namespace simurgh {
namespace {

constexpr std::chrono::seconds kSkipInterval{5};  // Between reports of a long skip.
constexpr uint64_t kLoggedRows = 10;  // Bad rows, and rows with a warning, that a reader logs.

}  // namespace

FileBatchReader::FileBatchReader(const DataConfig& config, std::unique_ptr<RowConsumer> consumer,
                                 RowLines lines, BatchBuilder builder, size_t batch_size,
                                 const ReadOptions& options)
    : config_(config),
      batch_size_(batch_size),
      options_(options),
      division_{.batch_size = static_cast<uint32_t>(batch_size),
                .piece_batches = options.piece_batches,
                .shares = options.shares},
      read_end_(options.read == nullptr ? 0 : options.read->EndOfRead(options.epoch)),
      parser_(NewRowParser(config, options.ignore_labels, std::move(consumer))),
      builder_(std::move(builder)),
      lines_(std::move(lines)) {}

StatusOr<std::unique_ptr<FileBatchReader>> FileBatchReader::Open(
    const DataConfig& config, std::unique_ptr<RowConsumer> consumer,
    const std::vector<std::string>& files, BatchBuilder builder, size_t batch_size,
    const ReadOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(RowLines lines, RowLines::Open(config, files, options));
  return std::unique_ptr<FileBatchReader>(new FileBatchReader(
      config, std::move(consumer), std::move(lines), std::move(builder), batch_size, options));
}

Status FileBatchReader::Skip(const Status& problem) {
  const bool may_be_header = config_.format == DataConfig::Format::kCsv && !config_.csv.header &&
                             lines_.line_number() == 1 &&
                             absl::StartsWith(problem.message(), "column '");
  const Status where = lines_.AtLine(
      may_be_header
          ? absl::InvalidArgumentError(absl::StrCat(
                problem.message(), "; if the line is a header, set data.csv.header: true"))
          : problem);
  const bool skips = config_.bad_rows == DataConfig::BadRows::kSkip;
  if (!skips || !absl::IsInvalidArgument(problem)) return where;
  if (++skipped_rows_ > config_.max_bad_rows) {
    return Annotate(
        where, absl::StrFormat("more bad rows than data.max_bad_rows, %d", config_.max_bad_rows));
  }
  if (skipped_rows_ <= kLoggedRows) spdlog::warn("row skipped: {}", std::string(where.message()));
  if (skipped_rows_ == kLoggedRows) spdlog::warn("further bad rows are counted, not logged");
  return absl::OkStatus();
}

void FileBatchReader::Warn(const std::string& warning) {
  if (++warnings_ > kLoggedRows) return;
  spdlog::warn("{}:{}: {}", lines_.file(), lines_.line_number(), warning);
  if (warnings_ == kLoggedRows) spdlog::warn("further outliers are not logged");
}

Status FileBatchReader::ShowSkip() {
  if (stopped_) return absl::CancelledError("reading was stopped");
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < kSkipInterval) return absl::OkStatus();
  shown_ = now;
  spdlog::info("skipping rows that have been read: epoch={} rows={} file={}", options_.epoch + 1,
               rows_, lines_.file());
  return absl::OkStatus();
}

void FileBatchReader::Observe(std::string_view line, bool in_batch) const {
  if (!options_.on_row) return;
  const FileColumns* columns = lines_.columns();
  if (columns == nullptr) return options_.on_row(line, in_batch);
  options_.on_row(InConfiguredOrder(config_.csv, *columns, line), in_batch);
}

Status FileBatchReader::Take(const Line& line) {
  const uint64_t row = rows_++;
  if (row < read_end_ && row % 4'096 == 0) SIMURGH_RETURN_IF_ERROR(ShowSkip());
  if (division_.ShareOf(row) != options_.share) return absl::OkStatus();
  if (row < read_end_ && options_.read->IsRead({options_.epoch, row})) return absl::OkStatus();
  const Status parsed =
      line.whole ? parser_->Parse(line.text, lines_.columns(), builder_) : LongLineError();
  if (!parsed.ok()) {
    builder_.AbandonSample();
    Observe(line.text, false);
    return Skip(parsed);
  }
  if (const std::string warning = parser_->TakeWarning(); !warning.empty()) Warn(warning);
  const bool keeps = builder_.positive() || KeepsNegative(options_, row);
  keeps ? builder_.EndSample() : builder_.AbandonSample();
  Observe(line.text, keeps);
  return absl::OkStatus();
}

StatusOr<std::optional<Batch>> FileBatchReader::Next() {
  while (builder_.size() < batch_size_) {
    SIMURGH_ASSIGN_OR_RETURN(const auto line, lines_.Next());
    if (!line.has_value()) break;
    SIMURGH_RETURN_IF_ERROR(Take(*line));
  }
  if (builder_.size() == 0) return std::nullopt;
  SIMURGH_ASSIGN_OR_RETURN(Batch batch, builder_.Build());
  batch.progress = {.share = options_.share,
                    .files = static_cast<uint32_t>(lines_.files_opened()),
                    .next = {options_.epoch, rows_}};
  if (const double part = lines_.part(); part > 0) {
    batch.progress.rows = static_cast<uint64_t>(static_cast<double>(rows_) / part);
  }
  return batch;
}

}  // namespace simurgh
