#include "data/file_batch_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "data/arrow_source.h"
#include "data/process/negative_sampling.h"
#include "data/row_parser.h"
#include "simurgh/base/hash.h"
#include "simurgh/base/log.h"
#include "simurgh/data/bad_row_file.h"
#include "simurgh/data/row_lines.h"
#include "simurgh/data/row_text.h"

namespace simurgh {
namespace {

constexpr std::chrono::seconds kSkipInterval{5};  // Between reports of a long skip.
constexpr uint64_t kLeastRows = 1'000;            // Of which a share of bad rows is too large.
constexpr uint64_t kLoggedRows = 10;  // Bad rows, and rows with a warning, that a reader logs.

// Rows that are lines.
class LineSource final : public RowSource {
 public:
  LineSource(const DataConfig& config, std::unique_ptr<RowParser> parser, RowLines lines)
      : config_(config), parser_(std::move(parser)), lines_(std::move(lines)) {}

  StatusOr<bool> Next() override {
    SIMURGH_ASSIGN_OR_RETURN(const auto line, lines_.Next());
    if (line) line_ = *line;
    return line.has_value();
  }

  Status Parse(BatchBuilder& builder) override {
    if (!line_.whole) return LongLineError();
    const Status parsed = parser_->Parse(line_.text, lines_.columns(), builder);
    const bool may_be_header = config_.format == DataConfig::Format::kCsv && !config_.csv.header &&
                               lines_.line_number() == 1 &&
                               absl::StartsWith(parsed.message(), "column '");
    if (!may_be_header || !absl::IsInvalidArgument(parsed)) return parsed;
    return absl::InvalidArgumentError(
        absl::StrCat(parsed.message(), "; if the line is a header, set data.csv.header: true"));
  }

  std::string TakeWarning() override { return parser_->TakeWarning(); }
  std::string Text() override {
    const FileColumns* columns = lines_.columns();
    return columns == nullptr ? std::string(line_.text)
                              : InConfiguredOrder(config_, *columns, line_.text);
  }
  std::string Place() const override {
    return absl::StrCat(lines_.file(), ":", lines_.line_number());
  }
  std::optional<ReadPlace> place() const override { return lines_.place(); }
  size_t files_opened() const override { return lines_.files_opened(); }
  double part() const override { return lines_.part(); }

 private:
  const DataConfig config_;
  std::unique_ptr<RowParser> parser_;
  RowLines lines_;
  Line line_;  // The current row.
};

// Rows of the records of a stream.
class StreamSource : public RowSource {
 public:
  StreamSource(RecordStream& stream, StreamOffsets begin)
      : stream_(stream), offsets_(std::move(begin)) {}

  bool is_idle() const override { return !stream_.has_ended(); }
  std::string Place() const override {
    return absl::StrCat(std::string(record_.partition), " at offset ", record_.offset);
  }
  void AddTo(ShareProgress& progress) override {
    Advance(offsets_, stream_.offsets());
    progress.offsets = offsets_;
  }
  uint64_t number(uint64_t /*row*/) const override {
    return HashBytes(record_.partition, record_.offset);
  }
  size_t files_opened() const override { return 0; }
  double part() const override { return 0; }

 protected:
  // Goes to the next record that has a value and rows left to read. False: there is none yet.
  StatusOr<bool> NextRecord() {
    while (true) {
      SIMURGH_ASSIGN_OR_RETURN(const auto record, stream_.Next());
      if (!record) return false;
      auto found = offsets_.find(record->partition);
      if (found == offsets_.end()) found = offsets_.emplace(record->partition, 0).first;
      next_ = &found->second;
      if (record->offset < next_->offset) continue;
      record_ = *record;
      if (record->offset > next_->offset) *next_ = record->offset;
      if (record_.value) return true;
      EndRecord();
    }
  }
  void EndRecord() { *next_ = record_.offset + 1; }
  std::string_view value() const { return *record_.value; }
  RecordPlace& next() { return *next_; }

 private:
  RecordStream& stream_;
  StreamOffsets offsets_;  // Of the next rows.
  RecordStream::Record record_;
  RecordPlace* next_ = nullptr;  // Of its partition.
};

// Each record is a row.
class RowRecordSource final : public StreamSource {
 public:
  RowRecordSource(RecordStream& stream, StreamOffsets begin, std::unique_ptr<RowParser> parser)
      : StreamSource(stream, std::move(begin)), parser_(std::move(parser)) {}

  StatusOr<bool> Next() override {
    SIMURGH_ASSIGN_OR_RETURN(const bool has_record, NextRecord());
    if (has_record) EndRecord();
    return has_record;
  }
  Status Parse(BatchBuilder& builder) override {
    if (value().size() > kMaxLineBytes) return LongLineError();
    return parser_->Parse(value(), /*columns=*/nullptr, builder);
  }
  std::string TakeWarning() override { return parser_->TakeWarning(); }
  std::string Text() override { return std::string(value()); }

 private:
  std::unique_ptr<RowParser> parser_;
};

// Each record is Arrow data of any number of rows.
class ArrowRecordSource final : public StreamSource {
 public:
  ArrowRecordSource(RecordStream& stream, StreamOffsets begin, std::unique_ptr<ArrowRecords> rows)
      : StreamSource(stream, std::move(begin)), rows_(std::move(rows)) {}

  StatusOr<bool> Next() override {
    while (true) {
      if (!in_record_) {
        SIMURGH_ASSIGN_OR_RETURN(const bool has_record, NextRecord());
        if (!has_record) return false;
        in_record_ = true;
        row_ = 0;
        ahead_.reset();
        if (const Status opened = rows_->Open(value()); !opened.ok()) ahead_ = opened;
      }
      const StatusOr<bool> has_row = ahead_ ? *std::exchange(ahead_, {}) : rows_->Next();
      problem_ = has_row.status();
      if (!has_row.ok() || !*has_row) {
        in_record_ = false;
        EndRecord();
        if (!has_row.ok()) return true;  // What is left of the record is a bad row.
      } else if (++row_ > next().row) {
        next().row = row_;
        return true;
      }
    }
  }
  Status Parse(BatchBuilder& builder) override {
    const Status parsed = problem_.ok() ? rows_->Parse(builder) : problem_;
    const bool is_damaged = !problem_.ok() || absl::IsDataLoss(parsed);
    return is_damaged ? absl::InvalidArgumentError(parsed.message()) : parsed;
  }
  std::string TakeWarning() override { return rows_->TakeWarning(); }
  std::string Text() override {
    constexpr size_t kBytes = 64;  // Binary ones tell little.
    return problem_.ok() ? rows_->Text() : absl::CHexEscape(std::string(value().substr(0, kBytes)));
  }
  std::string Place() const override {
    return absl::StrCat(StreamSource::Place(), ", row ", row_ + (problem_.ok() ? 0 : 1));
  }
  // Behind its last row, a record has been read: brokers may delete it.
  void AddTo(ShareProgress& progress) override {
    if (in_record_) {
      ahead_ = rows_->Next();
      if (ahead_->ok() && !**ahead_) EndRecord();
    }
    StreamSource::AddTo(progress);
  }
  uint64_t number(uint64_t row) const override { return Mix64(StreamSource::number(row) + row_); }

 private:
  std::unique_ptr<ArrowRecords> rows_;
  bool in_record_ = false;
  uint64_t row_ = 0;                     // Rows of the record so far.
  Status problem_;                       // Of the record.
  std::optional<StatusOr<bool>> ahead_;  // What the next Next() returns.
};

Division DivisionOf(size_t batch_size, const ReadOptions& options) {
  return {.batch_size = static_cast<uint32_t>(batch_size),
          .piece_batches = options.piece_batches,
          .shares = options.shares};
}

}  // namespace

StatusOr<std::unique_ptr<RowSource>> OpenRowSource(const DataConfig& config,
                                                   std::unique_ptr<RowConsumer> consumer,
                                                   const std::vector<std::string>& files,
                                                   const ReadOptions& options,
                                                   const ReadPlace& from) {
  if (IsArrow(config) && !options.are_lines) {
    return OpenArrowSource(config, std::move(consumer), files, options);
  }
  const DataConfig of_lines = LinesOf(config);
  SIMURGH_ASSIGN_OR_RETURN(RowLines lines, RowLines::Open(of_lines, files, options, from));
  return std::make_unique<LineSource>(
      of_lines, NewRowParser(of_lines, options.ignore_labels, std::move(consumer)),
      std::move(lines));
}

StatusOr<std::unique_ptr<RowSource>> NewStreamSource(const DataConfig& config, RecordStream& stream,
                                                     StreamOffsets begin,
                                                     std::unique_ptr<RowConsumer> consumer) {
  if (IsArrow(config)) {
    SIMURGH_ASSIGN_OR_RETURN(auto rows, NewArrowRecords(config, std::move(consumer)));
    return std::make_unique<ArrowRecordSource>(stream, std::move(begin), std::move(rows));
  }
  return std::make_unique<RowRecordSource>(
      stream, std::move(begin), NewRowParser(config, /*ignore_labels=*/false, std::move(consumer)));
}

FileBatchReader::FileBatchReader(const DataConfig& config, std::unique_ptr<RowSource> rows,
                                 BatchBuilder builder, size_t batch_size,
                                 const ReadOptions& options, const ReadPlace& from)
    : config_(config),
      batch_size_(batch_size),
      options_(options),
      division_(DivisionOf(batch_size, options)),
      read_end_(options.read == nullptr ? 0 : options.read->EndOfRead(options.epoch)),
      place_(from),
      source_(std::move(rows)),
      builder_(std::move(builder)),
      rows_(from.row) {}

StatusOr<std::unique_ptr<FileBatchReader>> FileBatchReader::Open(
    const DataConfig& config, std::unique_ptr<RowConsumer> consumer,
    const std::vector<std::string>& files, BatchBuilder builder, size_t batch_size,
    const ReadOptions& options) {
  const ReadPlace from =
      options.read == nullptr
          ? ReadPlace()
          : options.read->PlaceOf(DivisionOf(batch_size, options), options.share, options.epoch);
  SIMURGH_ASSIGN_OR_RETURN(auto rows,
                           OpenRowSource(config, std::move(consumer), files, options, from));
  return std::make_unique<FileBatchReader>(config, std::move(rows), std::move(builder), batch_size,
                                           options, from);
}

Status FileBatchReader::Skip(const Status& problem) {
  const Status where = Annotate(problem, source_->Place());
  const bool skips = config_.on_bad_row == DataConfig::OnBadRow::kSkip;
  if (!skips || !absl::IsInvalidArgument(problem)) return where;
  ++skipped_rows_;
  if (options_.bad_rows != nullptr) {
    options_.bad_rows->Add(source_->Place(), std::string(problem.message()), source_->Text());
  }
  const auto rows = static_cast<double>(std::max(parsed_rows_, kLeastRows));
  if (static_cast<double>(skipped_rows_) > config_.max_bad_share * rows) {
    return Annotate(where,
                    absl::StrFormat("%d of %d rows are bad, more than data.max_bad_share, %g%s",
                                    skipped_rows_, parsed_rows_, config_.max_bad_share,
                                    parsed_rows_ < kLeastRows ? ", of 1000" : ""));
  }
  if (skipped_rows_ <= kLoggedRows) spdlog::warn("row skipped: {}", std::string(where.message()));
  if (skipped_rows_ == kLoggedRows) spdlog::warn("further bad rows are counted, not logged");
  return absl::OkStatus();
}

void FileBatchReader::Warn(const std::string& warning) {
  if (++warnings_ > kLoggedRows) return;
  spdlog::warn("{}: {}", source_->Place(), warning);
  if (warnings_ == kLoggedRows) spdlog::warn("further outliers are not logged");
}

Status FileBatchReader::ShowSkip() {
  if (stopped_) return absl::CancelledError("reading was stopped");
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < kSkipInterval) return absl::OkStatus();
  shown_ = now;
  spdlog::info("skipping rows that have been read: epoch={} rows={} place={}", options_.epoch + 1,
               rows_, source_->Place());
  return absl::OkStatus();
}

void FileBatchReader::Observe(bool in_batch) const {
  if (options_.on_row) options_.on_row(source_->Text(), in_batch);
}

uint64_t FileBatchReader::EndOfUnwanted() const {
  constexpr uint64_t kMost = uint64_t{1} << 20;  // Between reports of a long skip.
  const uint64_t chunk = uint64_t{division_.batch_size} * division_.piece_batches;
  uint64_t row = rows_;
  while (row - rows_ < kMost) {
    if (division_.ShareOf(row) != options_.share) {
      row = (row / chunk + 1) * chunk;
    } else if (row < read_end_ && options_.read->IsRead({options_.epoch, row})) {
      ++row;
    } else {
      break;
    }
  }
  return row;
}

Status FileBatchReader::Take() {
  const uint64_t row = rows_++;
  if (row < read_end_ && row % 4'096 == 0) SIMURGH_RETURN_IF_ERROR(ShowSkip());
  if (row < wanted_) return absl::OkStatus();
  ++parsed_rows_;
  const Status parsed = source_->Parse(builder_);
  if (!parsed.ok()) {
    builder_.AbandonSample();
    Observe(false);
    return Skip(parsed);
  }
  if (const std::string warning = source_->TakeWarning(); !warning.empty()) Warn(warning);
  const bool keeps = builder_.positive() || KeepsNegative(options_, source_->number(row));
  keeps ? builder_.EndSample() : builder_.AbandonSample();
  Observe(keeps);
  return absl::OkStatus();
}

StatusOr<std::optional<Batch>> FileBatchReader::Next() {
  while (builder_.size() < batch_size_) {
    if (rows_ >= wanted_) wanted_ = EndOfUnwanted();
    if (rows_ < wanted_) {
      const uint64_t skipped = source_->Skip(wanted_ - rows_);
      rows_ += skipped;
      if (skipped > 0) {
        if (rows_ < read_end_) SIMURGH_RETURN_IF_ERROR(ShowSkip());
        continue;
      }
    }
    SIMURGH_ASSIGN_OR_RETURN(const bool has_row, source_->Next());
    if (!has_row && source_->is_idle()) {
      Batch idle;
      idle.idle = true;
      // Rows that wait are in no batch yet.
      if (builder_.size() == 0) source_->AddTo(idle.progress);
      return idle;
    }
    if (!has_row) break;
    SIMURGH_RETURN_IF_ERROR(Take());
  }
  if (builder_.size() == 0) return std::nullopt;
  SIMURGH_ASSIGN_OR_RETURN(Batch batch, builder_.Build());
  batch.progress = {.share = options_.share,
                    .files = static_cast<uint32_t>(source_->files_opened()),
                    .next = {options_.epoch, rows_}};
  source_->AddTo(batch.progress);
  if (const std::optional<ReadPlace> place = source_->place()) {
    place_ = *place;
    place_.row = rows_;
  }
  batch.progress.place = place_;
  if (const double part = source_->part(); part > 0) {
    batch.progress.rows = static_cast<uint64_t>(static_cast<double>(rows_) / part);
  }
  return batch;
}

}  // namespace simurgh
