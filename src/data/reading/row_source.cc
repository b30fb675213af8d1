#include "data/reading/row_source.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "data/reading/arrow_source.h"
#include "data/reading/encoding.h"
#include "data/reading/row_lines.h"
#include "data/reading/row_parser.h"
#include "data/reading/row_text.h"

namespace simurgh {
namespace {

// Lines of a file.
class LineBlock final : public RowBlock {
 public:
  // Bytes of text from which a block is full. The last line may exceed them.
  static constexpr size_t kBytes = size_t{256} << 10;
  static constexpr size_t kRows = 1'024;

  void Clear() {
    rows = 0;
    text_.clear();
    lines_.clear();
  }
  bool is_full() const { return rows >= std::min(kRows, max_rows) || text_.size() >= kBytes; }
  void Add(const Line& line, size_t number, const ReadPlace& after) {
    text_.append(line.text);
    lines_.push_back({.end = text_.size(), .number = number, .whole = line.whole, .after = after});
    ++rows;
  }

  Line line(size_t row) const {
    const size_t begin = row == 0 ? 0 : lines_[row - 1].end;
    return {.text = std::string_view(text_).substr(begin, lines_[row].end - begin),
            .whole = lines_[row].whole};
  }
  size_t line_number(size_t row) const { return lines_[row].number; }
  std::optional<ReadPlace> PlaceAfter(size_t row) const override { return lines_[row].after; }

  std::string file;
  std::optional<FileColumns> columns;  // Nothing: those of the configuration, in order.

 private:
  struct Place {
    size_t end;  // End of the line in the text.
    size_t number;
    bool whole;
    ReadPlace after;
  };

  std::string text_;
  std::vector<Place> lines_;
};

class LineParser final : public BlockParser {
 public:
  LineParser(const DataConfig& config, std::unique_ptr<RowParser> parser)
      : config_(config), parser_(std::move(parser)) {}

  Status Take(RowBlock& block) override {
    block_ = static_cast<LineBlock*>(&block);
    return absl::OkStatus();
  }

  Status Parse(size_t row, BatchBuilder& builder) override {
    const Line line = block_->line(row);
    if (!line.whole) return LongLineError();
    const Status parsed = parser_->Parse(line.text, columns(), builder);
    const bool may_be_header = config_.format == DataConfig::Format::kCsv && !config_.csv.header &&
                               block_->line_number(row) == 1 &&
                               absl::StartsWith(parsed.message(), "column '");
    if (!may_be_header || !absl::IsInvalidArgument(parsed)) return parsed;
    return absl::InvalidArgumentError(
        absl::StrCat(parsed.message(), "; if the line is a header, set data.csv.header: true"));
  }

  std::string TakeWarning() override { return parser_->TakeWarning(); }
  std::string Text(size_t row) override {
    const std::string_view text = block_->line(row).text;
    return columns() == nullptr ? std::string(text) : InConfiguredOrder(config_, *columns(), text);
  }
  std::string Place(size_t row) const override {
    return absl::StrCat(block_->file, ":", block_->line_number(row));
  }

 private:
  const FileColumns* columns() const { return block_->columns ? &*block_->columns : nullptr; }

  const DataConfig config_;
  std::unique_ptr<RowParser> parser_;
  const LineBlock* block_ = nullptr;
};

class LineSource final : public RowSource {
 public:
  LineSource(const DataConfig& config, bool ignore_labels, RowLines lines)
      : config_(config),
        ignores_labels_(ignore_labels),
        lines_(std::move(lines)),
        part_(lines_.part()) {}

  std::unique_ptr<RowBlock> NewBlock() const override { return std::make_unique<LineBlock>(); }
  std::unique_ptr<BlockParser> NewParser(std::unique_ptr<RowConsumer> consumer) const override {
    return std::make_unique<LineParser>(
        config_, NewRowParser(config_, ignores_labels_, std::move(consumer)));
  }

  StatusOr<bool> Read(RowBlock& of_rows) override {
    auto& block = static_cast<LineBlock&>(of_rows);
    block.Clear();
    SIMURGH_RETURN_IF_ERROR(failed_);
    if (!next_) {
      SIMURGH_ASSIGN_OR_RETURN(next_, lines_.Next());
    }
    if (!next_) return false;
    block.file = lines_.file();
    block.files_opened = lines_.files_opened();
    block.columns = lines_.columns() == nullptr ? std::nullopt : std::optional(*lines_.columns());
    block.first_part = part_;
    while (next_ && lines_.files_opened() == block.files_opened && !block.is_full()) {
      block.Add(*next_, lines_.line_number(), *place());
      CheckEncoding();
      part_ = lines_.part();
      next_.reset();
      if (block.is_full()) break;
      auto next = lines_.Next();
      if (!next.ok()) {
        failed_ = next.status();
        break;
      }
      next_ = *next;
    }
    if (!next_ && !block.is_full()) part_ = lines_.part();
    block.last_part = part_;
    return true;
  }

  size_t files_opened() const override { return lines_.files_opened(); }
  std::optional<ReadPlace> place() const override { return lines_.place(); }
  double part() const override { return lines_.part(); }

 private:
  // Warns once in a process about text that is not UTF-8, whose ids servers would not find.
  void CheckEncoding() const {
    static std::atomic<bool> is_said = false;
    if (is_said) return;
    const std::string problem = EncodingProblem(next_->text);
    if (problem.empty() || is_said.exchange(true)) return;
    spdlog::warn("{}:{}: {}; servers read UTF-8", lines_.file(), lines_.line_number(), problem);
  }

  const DataConfig config_;
  const bool ignores_labels_;
  RowLines lines_;
  std::optional<Line> next_;  // A line that was read but is not in a block yet.
  Status failed_;             // Error after the last block.
  double part_;               // RowLines::part() of the lines in blocks.
};

std::string PlaceOfRecord(const RowBlock::Record& record) {
  return absl::StrCat(std::string(record.partition), " at offset ", record.offset);
}

// Parses records that are rows.
class RecordParser final : public BlockParser {
 public:
  explicit RecordParser(std::unique_ptr<RowParser> parser) : parser_(std::move(parser)) {}

  Status Take(RowBlock& block) override {
    record_ = &*block.record;
    return absl::OkStatus();
  }
  Status Parse(size_t /*row*/, BatchBuilder& builder) override {
    if (record_->value.size() > kMaxLineBytes) return LongLineError();
    return parser_->Parse(record_->value, /*columns=*/nullptr, builder);
  }
  std::string TakeWarning() override { return parser_->TakeWarning(); }
  std::string Text(size_t /*row*/) override { return std::string(record_->value); }
  std::string Place(size_t /*row*/) const override { return PlaceOfRecord(*record_); }

 private:
  std::unique_ptr<RowParser> parser_;
  const RowBlock::Record* record_ = nullptr;
};

// Parses records that have rows of Arrow data. The unreadable rest of a record is one bad row.
class ArrowRecordParser final : public BlockParser {
 public:
  explicit ArrowRecordParser(std::unique_ptr<BlockParser> parser) : parser_(std::move(parser)) {}

  Status Take(RowBlock& block) override {
    record_ = &*block.record;
    if (record_->problem.ok()) record_->problem = parser_->Take(block);
    if (record_->problem.ok()) return absl::OkStatus();
    block.rows = 1;
    record_->is_last = true;
    return absl::OkStatus();
  }
  Status Parse(size_t row, BatchBuilder& builder) override {
    const Status parsed = record_->problem.ok() ? parser_->Parse(row, builder) : record_->problem;
    const bool is_damaged = !record_->problem.ok() || absl::IsDataLoss(parsed);
    return is_damaged ? absl::InvalidArgumentError(parsed.message()) : parsed;
  }
  void AddColumns(const std::vector<uint32_t>& kept, BatchBuilder& builder) override {
    if (record_->problem.ok()) parser_->AddColumns(kept, builder);
  }
  std::string TakeWarning() override { return parser_->TakeWarning(); }
  std::string Text(size_t row) override {
    constexpr size_t kBytes = 64;  // Shown bytes; more of a binary record would not help.
    return record_->problem.ok() ? parser_->Text(row)
                                 : absl::CHexEscape(std::string(record_->value.substr(0, kBytes)));
  }
  std::string Place(size_t row) const override {
    return absl::StrCat(PlaceOfRecord(*record_), ", row ", record_->before + row + 1);
  }

 private:
  std::unique_ptr<BlockParser> parser_;
  RowBlock::Record* record_ = nullptr;
};

class StreamSource final : public RowSource {
 public:
  // arrow: reads records that are Arrow data; null: each record is a row.
  StreamSource(const DataConfig& config, RecordStream& stream, StreamOffsets begin,
               std::unique_ptr<ArrowRecords> arrow)
      : config_(config), stream_(stream), offsets_(std::move(begin)), arrow_(std::move(arrow)) {}

  std::unique_ptr<RowBlock> NewBlock() const override {
    return arrow_ == nullptr ? std::make_unique<RowBlock>() : arrow_->NewBlock();
  }
  std::unique_ptr<BlockParser> NewParser(std::unique_ptr<RowConsumer> consumer) const override {
    if (arrow_ != nullptr) {
      return std::make_unique<ArrowRecordParser>(arrow_->NewParser(std::move(consumer)));
    }
    return std::make_unique<RecordParser>(
        NewRowParser(config_, /*ignore_labels=*/false, std::move(consumer)));
  }

  StatusOr<bool> Read(RowBlock& block) override {
    Leave(block);
    while (true) {
      if (!record_) {
        SIMURGH_ASSIGN_OR_RETURN(const bool has_record, NextRecord());
        if (!has_record) return false;
        if (arrow_ != nullptr) problem_ = arrow_->Open(*record_->value);
      }
      if (arrow_ != nullptr && !ReadArrow(block)) {
        *next_ = record_->offset + 1;
        record_.reset();
        continue;
      }
      if (arrow_ == nullptr) SetRecord(block, 1, /*is_last=*/true);
      return true;
    }
  }
  bool is_idle() const override { return !stream_.has_ended(); }

  void AddTo(ShareProgress& progress) override {
    Advance(offsets_, stream_.offsets());
    progress.offsets = offsets_;
  }
  size_t files_opened() const override { return 0; }
  double part() const override { return 0; }

 private:
  // Moves the partition's offset past the block that was read before.
  void Leave(RowBlock& block) {
    if (!block.record) return;
    *next_ = block.PlaceInStream(block.rows - 1);
    row_ = block.record->before + block.rows;
    if (block.record->is_last) record_.reset();
    block.record.reset();
  }

  // Goes to the next record that has a value and rows left to read. Returns false if there is none
  // yet.
  StatusOr<bool> NextRecord() {
    while (true) {
      SIMURGH_ASSIGN_OR_RETURN(const auto record, stream_.Next());
      if (!record) return false;
      auto found = offsets_.find(record->partition);
      if (found == offsets_.end()) found = offsets_.emplace(record->partition, 0).first;
      next_ = &found->second;
      if (record->offset < next_->offset) continue;
      if (record->offset > next_->offset) *next_ = record->offset;
      row_ = 0;
      record_ = *record;
      if (record_->value) return true;
      *next_ = record->offset + 1;
      record_.reset();
    }
  }

  // Reads rows of the record, or why it cannot be read. Returns false if all have been read.
  bool ReadArrow(RowBlock& block) {
    if (problem_.ok()) problem_ = ReachRow();
    if (!problem_.ok()) {
      SetRecord(block, 1, /*is_last=*/true);
      block.record->problem = std::exchange(problem_, absl::OkStatus());
      return true;
    }
    if (!has_rows_ || !arrow_->Read(block).value()) return false;
    const StatusOr<bool> more = arrow_->HasRows();
    problem_ = more.status();
    SetRecord(block, block.rows, /*is_last=*/more.ok() && !*more);
    return true;
  }

  // Passes rows that have been read. Sets has_rows_.
  Status ReachRow() {
    while (true) {
      SIMURGH_ASSIGN_OR_RETURN(has_rows_, arrow_->HasRows());
      if (!has_rows_ || row_ >= next_->row) return absl::OkStatus();
      row_ += arrow_->Skip(next_->row - row_);
    }
  }

  void SetRecord(RowBlock& block, size_t rows, bool is_last) {
    block.rows = rows;
    block.record = RowBlock::Record{.value = *record_->value,
                                    .partition = record_->partition,
                                    .offset = record_->offset,
                                    .before = row_,
                                    .is_last = is_last};
  }

  const DataConfig config_;
  RecordStream& stream_;
  StreamOffsets offsets_;  // Offsets of the next rows, without the last block.
  const std::unique_ptr<ArrowRecords> arrow_;
  std::optional<RecordStream::Record> record_;  // The record with further rows.
  RecordPlace* next_ = nullptr;                 // Next place of its partition, in offsets_.
  uint64_t row_ = 0;                            // Number of its rows so far.
  bool has_rows_ = false;                       // The record has further rows.
  Status problem_;                              // Error of reading further rows.
};

}  // namespace

StatusOr<std::unique_ptr<RowSource>> OpenRowSource(const DataConfig& config,
                                                   const std::vector<std::string>& files,
                                                   const ReadOptions& options,
                                                   const ReadPlace& from) {
  if (IsArrow(config) && !options.are_lines) return OpenArrowSource(config, files, options);
  const DataConfig of_lines = LinesOf(config);
  SIMURGH_ASSIGN_OR_RETURN(RowLines lines, RowLines::Open(of_lines, files, options, from));
  return std::make_unique<LineSource>(of_lines, options.ignore_labels, std::move(lines));
}

StatusOr<std::unique_ptr<RowSource>> NewStreamSource(const DataConfig& config, RecordStream& stream,
                                                     StreamOffsets begin) {
  std::unique_ptr<ArrowRecords> arrow;
  if (IsArrow(config)) {
    SIMURGH_ASSIGN_OR_RETURN(arrow, NewArrowRecords(config));
  }
  return std::make_unique<StreamSource>(config, stream, std::move(begin), std::move(arrow));
}

}  // namespace simurgh
