#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/log.h"
#include "base/mutex.h"
#include "data/processing/feature_ids.h"
#include "data/reading/bad_row_file.h"
#include "data/reading/row_sampling.h"
#include "data/reading/row_source.h"

namespace simurgh {
namespace {

constexpr uint64_t kMinRows = 1'000;  // Fewer rows count as these in the share of bad rows.
// Most bad rows, and most warnings, that a reader logs; most warnings that a block keeps.
constexpr uint64_t kLoggedRows = 10;
constexpr std::chrono::seconds kSkipInterval{5};  // Time between reports of a long skip.
// Blocks that are parsed ahead. With these, no thread waits while another is late.
constexpr size_t kBlocksPerThread = 2;
constexpr size_t kLeastRows = 64;  // Least limit of a block, since a hand-over has a cost.

Division DivisionOf(size_t batch_size, const ReadOptions& options) {
  return {.batch_size = static_cast<uint32_t>(batch_size),
          .piece_batches = options.piece_batches,
          .shares = options.shares};
}

// The rows that a reader of a share takes: those of its chunks that have not been read.
class WantedRows {
 public:
  WantedRows(const Division& division, const ReadOptions& options)
      : division_(division),
        share_(options.share),
        epoch_(options.epoch),
        read_(options.read),
        read_end_(read_ == nullptr ? 0 : read_->EndOfRead(epoch_)) {}

  // Returns the first wanted row from `row` on, or one before it.
  uint64_t From(uint64_t row) const {
    if (division_.shares == 1 && row >= read_end_) return row;
    constexpr uint64_t kMost = uint64_t{1} << 20;  // Rows between reports of a long skip.
    const uint64_t chunk = uint64_t{division_.batch_size} * division_.piece_batches;
    const uint64_t begin = row;
    while (row - begin < kMost) {
      if (division_.ShareOf(row) != share_) {
        row = (row / chunk + 1) * chunk;
      } else if (row < read_end_ && read_->IsRead({epoch_, row})) {
        ++row;
      } else {
        break;
      }
    }
    return row;
  }
  size_t batch_size() const { return division_.batch_size; }
  // Returns the row from which on none has been read.
  uint64_t read_end() const { return read_end_; }

 private:
  Division division_;
  uint32_t share_;
  uint32_t epoch_;
  const DataPosition* read_;  // May be null.
  uint64_t read_end_;
};

// A block of rows and the result of parsing it.
struct ParsedBlock {
  enum class Row : uint8_t { kUnwanted, kKept, kDropped, kBad };
  // A bad row, or one with a warning.
  struct Note {
    size_t row;
    Status problem;  // OK: a warning.
    std::string place;
    std::string warning;
    std::string text;  // Text of the first bad rows, if they are written.
  };

  std::unique_ptr<RowBlock> block;
  Status status;                   // Result of reading; after an error, there are no rows.
  bool has_rows = false;           // False: the source is idle or at its end.
  uint64_t first = 0;              // Number of the first row.
  std::vector<Row> rows;           // Result of each row.
  BatchBuilder samples;            // Samples of the kept rows.
  std::vector<Note> notes;         // Bad rows and the first warnings, in order of rows.
  std::vector<std::string> texts;  // Texts of the wanted rows, for an observer.
};

// Reads blocks of a source and parses them, in the calling thread or in several threads ahead of
// it. Blocks stay in order, and are the same with any number of threads.
//
// Threads: one owner; Stop: any.
class ParsedBlocks {
 public:
  // first: number of the source's first row. Others: see NewSourceReader().
  ParsedBlocks(std::unique_ptr<RowSource> source,
               std::vector<std::unique_ptr<RowConsumer>> consumers,
               const std::function<BatchBuilder()>& make_builder, const WantedRows& wanted,
               const ReadOptions& options, uint64_t first)
      : source_(std::move(source)), next_row_(first), wanted_(wanted), options_(options) {
    for (auto& consumer : consumers) parsers_.push_back(source_->NewParser(std::move(consumer)));
    const size_t threads = parsers_.size();
    const size_t blocks = threads == 1 ? 1 : kBlocksPerThread * threads;
    for (size_t i = 0; i < blocks; ++i) {
      blocks_.push_back({.block = source_->NewBlock(), .samples = make_builder()});
      // The limit bounds the ids of a block by those of a batch, or of a few rows.
      blocks_.back().block->max_rows = std::max(kLeastRows, wanted.batch_size());
      blocks_.back().samples.LiftLimit();
    }
    is_parsed_.resize(blocks);
    if (threads == 1) return;
    for (const auto& parser : parsers_) threads_.emplace_back([&] { Work(*parser); });
  }
  ~ParsedBlocks() {
    stopped_ = true;
    const MutexLock lock(mutex_);
    has_ended_ = true;
    changed_.NotifyAll();
  }
  ParsedBlocks(const ParsedBlocks&) = delete;
  ParsedBlocks& operator=(const ParsedBlocks&) = delete;

  // Returns the next block. Lifetime: until the next call.
  ParsedBlock& Next() {
    const MutexLock lock(mutex_);
    if (parsers_.size() == 1) {
      ParsedBlock& parsed = blocks_.front();
      if (has_ended_) return parsed;
      Read(parsed);
      if (parsed.has_rows) Parse(*parsers_.front(), parsed);
      has_ended_ = !parsed.has_rows && (!parsed.status.ok() || !source_->is_idle());
      return parsed;
    }
    size_t place = taken_ % blocks_.size();
    if (is_held_ && blocks_[place].has_rows) {
      is_parsed_[place] = false;
      place = ++taken_ % blocks_.size();
      changed_.NotifyAll();
    }
    while (!is_parsed_[place]) changed_.Wait(mutex_);
    is_held_ = true;
    return blocks_[place];
  }

  // Ends a long skip of rows, now or later, with CANCELLED.
  void Stop() { stopped_ = true; }

  // Frees the memory of the last block's rows. Requires one parser.
  void Release() { parsers_.front()->Release(); }

  // Returns the source. Call only after a block without rows, or for AddTo().
  RowSource& source() { return *source_; }

 private:
  void Work(BlockParser& parser) {
    for (;;) {
      size_t place = 0;
      {
        const MutexLock lock(mutex_);
        while (!has_ended_ && (is_reading_ || read_ - taken_ == blocks_.size())) {
          changed_.Wait(mutex_);
        }
        if (has_ended_) return;
        is_reading_ = true;
        place = read_ % blocks_.size();
      }
      ParsedBlock& parsed = blocks_[place];
      Read(parsed);
      {
        const MutexLock lock(mutex_);
        is_reading_ = false;
        ++read_;
        if (!parsed.has_rows) has_ended_ = true;
        changed_.NotifyAll();
      }
      if (parsed.has_rows) Parse(parser, parsed);
      const MutexLock lock(mutex_);
      is_parsed_[place] = true;
      changed_.NotifyAll();
    }
  }

  // Reads the next block with a row that is wanted.
  void Read(ParsedBlock& parsed) {
    parsed.rows.clear();
    parsed.notes.clear();
    parsed.texts.clear();
    parsed.samples.Clear();
    parsed.has_rows = false;
    parsed.status = ReadWanted(parsed);
  }

  Status ReadWanted(ParsedBlock& parsed) {
    for (;;) {
      const uint64_t wanted = wanted_.From(next_row_);
      if (next_row_ < wanted) {
        const uint64_t skipped = source_->Skip(wanted - next_row_);
        next_row_ += skipped;
        if (skipped > 0) {
          if (next_row_ < wanted_.read_end()) SIMURGH_RETURN_IF_ERROR(ShowSkip());
          continue;
        }
      }
      parsed.first = next_row_;
      SIMURGH_ASSIGN_OR_RETURN(const bool has_rows, source_->Read(*parsed.block));
      if (!has_rows) return absl::OkStatus();
      next_row_ += parsed.block->rows;
      parsed.has_rows = wanted < next_row_;
      if (parsed.has_rows) return absl::OkStatus();
      if (next_row_ <= wanted_.read_end()) SIMURGH_RETURN_IF_ERROR(ShowSkip());
    }
  }

  // Logs progress of a long skip. Errors: CANCELLED after Stop.
  Status ShowSkip() {
    if (stopped_) return absl::CancelledError("reading was stopped");
    const auto now = std::chrono::steady_clock::now();
    if (now - shown_ < kSkipInterval) return absl::OkStatus();
    shown_ = now;
    spdlog::info("skipping rows that have been read: epoch={} rows={} files={}", options_.epoch + 1,
                 next_row_, source_->files_opened());
    return absl::OkStatus();
  }

  void Parse(BlockParser& parser, ParsedBlock& parsed) const {
    const RowBlock& block = *parsed.block;
    parsed.status = parser.Take(*parsed.block);
    parsed.has_rows = parsed.status.ok();
    if (!parsed.has_rows) return;
    parsed.rows.assign(block.rows, ParsedBlock::Row::kUnwanted);
    std::vector<uint32_t> kept;
    kept.reserve(block.rows);
    size_t bad = 0;
    size_t warnings = 0;
    uint64_t wanted = 0;
    for (size_t row = 0; row < block.rows; ++row) {
      const uint64_t number = parsed.first + row;
      if (number >= wanted) wanted = wanted_.From(number);
      if (number < wanted || !KeepsRow(options_, block.NumberOf(row, number))) continue;
      const Status status = parser.Parse(row, parsed.samples);
      if (options_.on_row) parsed.texts.push_back(parser.Text(row));
      if (!status.ok()) {
        parsed.samples.AbandonSample();
        parsed.rows[row] = ParsedBlock::Row::kBad;
        const bool is_written = options_.bad_rows != nullptr && bad++ < BadRowFile::kRows;
        parsed.notes.push_back({.row = row,
                                .problem = status,
                                .place = parser.Place(row),
                                .text = is_written ? parser.Text(row) : ""});
        continue;
      }
      if (std::string warning = parser.TakeWarning(); !warning.empty()) {
        if (warnings++ < kLoggedRows) {
          parsed.notes.push_back(
              {.row = row, .place = parser.Place(row), .warning = std::move(warning)});
        }
      }
      const bool keeps =
          parsed.samples.positive() || KeepsNegative(options_, block.NumberOf(row, number));
      keeps ? parsed.samples.EndSample() : parsed.samples.AbandonSample();
      parsed.rows[row] = keeps ? ParsedBlock::Row::kKept : ParsedBlock::Row::kDropped;
      if (keeps) kept.push_back(static_cast<uint32_t>(row));
    }
    parser.AddColumns(kept, parsed.samples);
  }

  // One thread at a time uses the source and the members up to shown_.
  std::unique_ptr<RowSource> source_;
  uint64_t next_row_;
  std::chrono::steady_clock::time_point shown_ = std::chrono::steady_clock::now();

  const WantedRows wanted_;
  const ReadOptions options_;
  std::vector<std::unique_ptr<BlockParser>> parsers_;
  std::vector<ParsedBlock> blocks_;  // Block n is in place n modulo their number.
  std::atomic<bool> stopped_ = false;

  Mutex mutex_;
  CondVar changed_;
  std::vector<bool> is_parsed_ ABSL_GUARDED_BY(mutex_);  // One per place in blocks_.
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;      // A thread is reading.
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;       // The source, or this object, has ended.
  uint64_t read_ ABSL_GUARDED_BY(mutex_) = 0;            // Number of blocks read.
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;           // Number that the caller is done with.
  bool is_held_ ABSL_GUARDED_BY(mutex_) = false;         // The caller has block `taken_`.
  std::vector<std::jthread> threads_;
};

// Collects the rows of a source, in order, in batches.
class FileBatchReader final : public BatchReader {
 public:
  FileBatchReader(const DataConfig& config, std::unique_ptr<RowSource> source,
                  std::vector<std::unique_ptr<RowConsumer>> consumers,
                  const std::function<BatchBuilder()>& make_builder, size_t batch_size,
                  const ReadOptions& options, const ReadPlace& from)
      : config_(config),
        batch_size_(batch_size),
        options_(options),
        place_(from),
        builder_(make_builder()),
        rows_(std::move(source), std::move(consumers), make_builder,
              WantedRows(DivisionOf(batch_size, options), options), options, from.row) {}

  StatusOr<std::optional<Batch>> Next() override {
    while (builder_.size() < batch_size_) {
      if (parsed_ == nullptr || row_ == parsed_->rows.size()) {
        parsed_ = &rows_.Next();
        row_ = 0;
        sample_ = 0;
        note_ = 0;
        text_ = 0;
        SIMURGH_RETURN_IF_ERROR(parsed_->status);
        if (!parsed_->has_rows && options_.short_batches) rows_.Release();
        const bool ends_batch = options_.short_batches && builder_.size() > 0;
        if (!parsed_->has_rows && !ends_batch && rows_.source().is_idle()) {
          Batch idle;
          idle.idle = true;
          // Rows in builder_ are in no batch yet, so the progress does not pass them.
          if (builder_.size() == 0) rows_.source().AddTo(idle.progress);
          return idle;
        }
        if (!parsed_->has_rows) break;
      }
      SIMURGH_RETURN_IF_ERROR(TakeRows());
    }
    if (builder_.size() == 0) return std::nullopt;
    SIMURGH_ASSIGN_OR_RETURN(Batch batch, builder_.Build());
    AddProgress(batch);
    return batch;
  }
  uint64_t skipped_rows() const override { return skipped_rows_; }
  void Stop() override { rows_.Stop(); }

 private:
  // Counts a bad row. Returns its error if it ends the run.
  Status Skip(const ParsedBlock::Note& note) {
    const Status where = Annotate(note.problem, note.place);
    const bool skips = config_.on_bad_row == DataConfig::OnBadRow::kSkip;
    if (!skips || !absl::IsInvalidArgument(note.problem)) return where;
    ++skipped_rows_;
    if (options_.bad_rows != nullptr) {
      options_.bad_rows->Add(note.place, std::string(note.problem.message()), note.text);
    }
    const auto rows = static_cast<double>(std::max(parsed_rows_, kMinRows));
    if (static_cast<double>(skipped_rows_) > config_.max_bad_share * rows) {
      return Annotate(where,
                      absl::StrFormat("%d of %d rows are bad, more than data.max_bad_share, %g%s",
                                      skipped_rows_, parsed_rows_, config_.max_bad_share,
                                      parsed_rows_ < kMinRows ? ", of 1000" : ""));
    }
    if (skipped_rows_ <= kLoggedRows) spdlog::warn("row skipped: {}", std::string(where.message()));
    if (skipped_rows_ == kLoggedRows) spdlog::warn("further bad rows are counted, not logged");
    return absl::OkStatus();
  }

  // Logs the first warnings.
  void Warn(const ParsedBlock::Note& note) {
    if (++warnings_ > kLoggedRows) return;
    spdlog::warn("{}: {}", note.place, note.warning);
    if (warnings_ == kLoggedRows) spdlog::warn("further outliers are not logged");
  }

  // Counts the next row and gives it to the observer. Errors: that of a bad row that ends the run.
  Status TakeRow() {
    const ParsedBlock& parsed = *parsed_;
    const ParsedBlock::Row became = parsed.rows[row_];
    const bool is_noted = note_ < parsed.notes.size() && parsed.notes[note_].row == row_;
    ++row_;
    if (became == ParsedBlock::Row::kUnwanted) return absl::OkStatus();
    ++parsed_rows_;
    const ParsedBlock::Note* const note = is_noted ? &parsed.notes[note_++] : nullptr;
    if (note != nullptr && note->problem.ok()) Warn(*note);
    if (options_.on_result) options_.on_result(became == ParsedBlock::Row::kKept);
    if (options_.on_row) {
      options_.on_row(parsed.texts[text_++], became == ParsedBlock::Row::kKept);
    }
    return note == nullptr || note->problem.ok() ? absl::OkStatus() : Skip(*note);
  }

  // Adds rows of the block to the batch, unless they are bad, dropped negatives or unwanted.
  Status TakeRows() {
    const std::vector<ParsedBlock::Row>& rows = parsed_->rows;
    while (row_ < rows.size() && builder_.size() < batch_size_) {
      const size_t first = row_;
      const size_t end = std::min(rows.size(), first + batch_size_ - builder_.size());
      while (row_ < end && rows[row_] == ParsedBlock::Row::kKept)
        SIMURGH_RETURN_IF_ERROR(TakeRow());
      const size_t count = row_ - first;
      if (count > 0) builder_.Append(parsed_->samples, sample_, count);
      sample_ += count;
      if (row_ < end) SIMURGH_RETURN_IF_ERROR(TakeRow());
    }
    return absl::OkStatus();
  }

  void AddProgress(Batch& batch) {
    const bool is_end = row_ == 0;
    const RowBlock& block = *parsed_->block;
    const uint64_t next = parsed_->first + row_;
    batch.progress = {
        .share = options_.share,
        .files = static_cast<uint32_t>(is_end ? rows_.source().files_opened() : block.files_opened),
        .next = {options_.epoch, next}};
    rows_.source().AddTo(batch.progress);
    if (!is_end && block.record) {
      batch.progress.offsets.find(block.record->partition)->second = block.PlaceInStream(row_ - 1);
    }
    if (const auto place = is_end ? rows_.source().place() : block.PlaceAfter(row_ - 1)) {
      place_ = *place;
      place_.row = next;
    }
    batch.progress.place = place_;
    double part = block.first_part;
    if (is_end) {
      part = rows_.source().part();
    } else {
      part +=
          (block.last_part - part) * static_cast<double>(row_) / static_cast<double>(block.rows);
    }
    if (part > 0) batch.progress.rows = static_cast<uint64_t>(static_cast<double>(next) / part);
  }

  DataConfig config_;
  size_t batch_size_;
  ReadOptions options_;
  ReadPlace place_;  // The last place of the source.
  BatchBuilder builder_;
  ParsedBlocks rows_;
  ParsedBlock* parsed_ = nullptr;  // The present block.
  // Indexes of the next row of the present block, and of its sample, note and text.
  size_t row_ = 0;
  size_t sample_ = 0;
  size_t note_ = 0;
  size_t text_ = 0;
  uint64_t parsed_rows_ = 0;  // Rows of this reader's share, including bad ones.
  uint64_t skipped_rows_ = 0;
  uint64_t warnings_ = 0;
};

}  // namespace

std::unique_ptr<BatchReader> NewSourceReader(const DataConfig& config,
                                             std::unique_ptr<RowSource> source,
                                             std::vector<std::unique_ptr<RowConsumer>> consumers,
                                             const std::function<BatchBuilder()>& make_builder,
                                             size_t batch_size, const ReadOptions& options) {
  return std::make_unique<FileBatchReader>(config, std::move(source), std::move(consumers),
                                           make_builder, batch_size, options, ReadPlace());
}

StatusOr<std::unique_ptr<BatchReader>> OpenFileReader(
    const DataConfig& config, std::vector<std::unique_ptr<RowConsumer>> consumers,
    const std::vector<std::string>& files, const std::function<BatchBuilder()>& make_builder,
    size_t batch_size, const ReadOptions& options) {
  const ReadPlace from =
      options.read == nullptr
          ? ReadPlace()
          : options.read->PlaceOf(DivisionOf(batch_size, options), options.share, options.epoch);
  SIMURGH_ASSIGN_OR_RETURN(auto source, OpenRowSource(config, files, options, from));
  return std::make_unique<FileBatchReader>(config, std::move(source), std::move(consumers),
                                           make_builder, batch_size, options, from);
}

}  // namespace simurgh
