#include "data/reading/shuffled_reader.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/mutex.h"
#include "data/reading/row_notes.h"
#include "data/reading/row_sampling.h"

namespace simurgh {
namespace {

// The rows of a window, in the order of the files.
struct Window {
  struct Note {
    size_t row;
    ParsedBlock::Note note;
  };

  uint64_t first = 0;  // Number of the first row.
  ReadPlace begin;     // Place of the first row.
  std::vector<ParsedBlock::Row> rows;
  std::vector<const uint32_t*> records;       // One per row; null: the row is in no batch.
  std::vector<Note> notes;                    // In order of rows.
  std::vector<std::string> texts;             // One per row, if there is an observer.
  double first_part = 0;                      // See RowBlock.
  std::vector<std::vector<uint32_t>> memory;  // Memory of the records, by block.

  bool is_complete = false;  // The following are set.
  Status status;             // Error of reading; there are no rows.
  bool is_last = false;      // No row follows.
  ReadPlace end;             // Place of the next window.
  uint32_t files = 0;
  double last_part = 0;
};

// Returns the place of a row of a source that cannot begin there.
ReadPlace NoPlace(uint64_t row) { return {.row = row, .file = ReadPlace::kNoFile}; }

class ShuffledReader final : public BatchReader {
 public:
  ShuffledReader(const DataConfig& config, OpenBlocks open, std::unique_ptr<ParsedBlocks> blocks,
                 const std::function<BatchBuilder()>& make_builder, size_t batch_size,
                 const ReadOptions& options, const ReadPlace& from)
      : division_(DivisionOf(batch_size, options)),
        options_(options),
        open_(std::move(open)),
        fails_on_change_(config.on_change == DataConfig::OnChange::kFail),
        read_end_(options.read->EndOfRead(options.epoch)),
        wanted_(division_, options, from),
        builder_(make_builder()),
        notes_(config, options.bad_rows),
        blocks_(std::move(blocks)) {
    ahead_.first = wanted_.read_end();
    const bool begins_there = from.row == ahead_.first;
    ahead_.begin = begins_there ? from : NoPlace(ahead_.first);
  }

  StatusOr<std::optional<Batch>> Next() override {
    while (builder_.size() + taken_.size() < division_.batch_size) {
      if (next_ < order_.size()) {
        SIMURGH_RETURN_IF_ERROR(TakeRow());
        continue;
      }
      if (window_.is_last) break;
      SIMURGH_RETURN_IF_ERROR(NextWindow());
    }
    AppendTaken();
    if (builder_.size() == 0) return std::nullopt;
    SIMURGH_ASSIGN_OR_RETURN(Batch batch, builder_.Build());
    batch.progress = Progress();
    // Without this, the first batch of a window would wait for all of its rows.
    while (!window_.is_last && !ahead_.is_complete && ahead_.rows.size() < next_) ReadAhead();
    return batch;
  }
  uint64_t skipped_rows() const override { return notes_.bad(); }
  void Stop() override {
    stopped_ = true;
    const MutexLock lock(mutex_);
    blocks_->Stop();
  }

 private:
  // Takes the next row of the window. Errors: that of a bad row that ends the run.
  Status TakeRow() {
    const size_t row = order_[next_];
    const uint64_t number = window_.first + next_++;
    const ParsedBlock::Row became = window_.rows[row];
    if (became == ParsedBlock::Row::kUnwanted || IsRead(number)) return absl::OkStatus();
    notes_.CountRow();
    const bool is_kept = became == ParsedBlock::Row::kKept;
    if (is_kept) taken_.push_back(window_.records[row]);
    if (options_.on_result) options_.on_result(is_kept);
    if (options_.on_row) options_.on_row(window_.texts[row], is_kept);
    if (window_.notes.empty()) return absl::OkStatus();
    const auto note = std::ranges::lower_bound(window_.notes, row, {}, &Window::Note::row);
    const bool has_note = note != window_.notes.end() && note->row == row;
    return has_note ? notes_.Take(note->note) : absl::OkStatus();
  }

  bool IsRead(uint64_t number) const {
    return number < read_end_ && options_.read->IsRead({options_.epoch, number});
  }

  // Adds the rows that were taken to the batch.
  void AppendTaken() {
    builder_.AppendPacked(taken_);
    taken_.clear();
  }

  // Goes to the window ahead.
  Status NextWindow() {
    while (!ahead_.is_complete) ReadAhead();
    SIMURGH_RETURN_IF_ERROR(ahead_.status);
    AppendTaken();
    Reuse(window_);
    window_ = std::exchange(ahead_, Window());
    ahead_.first = window_.first + window_.rows.size();
    ahead_.begin = window_.end;
    order_ = ShuffledRows(options_.seed, options_.epoch, window_.first, window_.rows.size());
    next_ = 0;
    ShowMemory();
    return absl::OkStatus();
  }

  void ShowMemory() const {
    static std::atomic<bool> is_said = false;
    if (is_said.exchange(true)) return;
    size_t bytes = window_.rows.size() * (sizeof(void*) + sizeof(order_[0]) + 1);
    for (const auto& records : window_.memory) bytes += records.size() * sizeof(records[0]);
    spdlog::info("rows are shuffled: data.shuffle={} window_rows={} two_windows_mib={:.1f}",
                 options_.read->window(options_.epoch), window_.rows.size(),
                 2 * static_cast<double>(bytes) / (uint64_t{1} << 20));
  }

  // Keeps the memory of a window's records for later ones: new pages cost time.
  void Reuse(Window& window) {
    std::ranges::move(window.memory, std::back_inserter(spare_));
    window.memory.clear();
  }

  // Reads a block of the window ahead.
  void ReadAhead() {
    if (stopped_) return Fail(absl::CancelledError("reading was stopped"));
    ParsedBlock& parsed = blocks_->Next();
    if (!parsed.status.ok()) return Fail(parsed.status);
    if (!parsed.has_rows) return EndData();
    if (ahead_.rows.empty()) ahead_.first_part = parsed.block->first_part;
    AddRows(parsed);
    if (ahead_.rows.size() < parsed.window.rows) return;
    const RowBlock& block = *parsed.block;
    Complete(block.files_opened, block.last_part, block.PlaceAfter(block.rows - 1));
  }

  void AddRows(ParsedBlock& parsed) {
    Window& to = ahead_;
    for (ParsedBlock::Note& note : parsed.notes) {
      const size_t row = to.rows.size() + note.row;
      to.notes.push_back({row, std::move(note)});
    }
    size_t sample = 0;
    size_t text = 0;
    to.rows.insert(to.rows.end(), parsed.rows.begin(), parsed.rows.end());
    for (const ParsedBlock::Row row : parsed.rows) {
      const bool is_kept = row == ParsedBlock::Row::kKept;
      to.records.push_back(is_kept ? parsed.records.data() + parsed.record_begins[sample++]
                                   : nullptr);
      if (!options_.on_row) continue;
      const bool has_text = row != ParsedBlock::Row::kUnwanted;
      to.texts.push_back(has_text ? std::move(parsed.texts[text++]) : "");
    }
    to.memory.push_back(std::move(parsed.records));
    parsed.records = {};
    if (spare_.empty()) return;
    parsed.records = std::move(spare_.back());
    spare_.pop_back();
  }

  // Completes the window ahead at the end of the data.
  void EndData() {
    const uint64_t rows = ahead_.rows.size();
    const WantedRows::Window expected = wanted_.WindowOf(ahead_.first);
    const bool is_known = expected.rows < options_.read->window(options_.epoch);
    if (rows > 0 && is_known && fails_on_change_) {
      return Fail(absl::FailedPreconditionError(
          absl::StrCat("data.train: the last ", expected.rows, " rows of the epoch are only ", rows,
                       " now; restore the files that were read")));
    }
    if (rows > 0 && is_known) {
      // Rows that are gone keep their places in the order, so that the others have theirs.
      ahead_.rows.resize(expected.rows, ParsedBlock::Row::kUnwanted);
      ahead_.records.resize(expected.rows);
      if (options_.on_row) ahead_.texts.resize(expected.rows);
    }
    // Which rows of the window are in the share depends on their number.
    if (rows > 0 && !is_known && options_.shares > 1) return ReadAgain();
    ahead_.is_last = true;
    RowSource& source = blocks_->source();
    Complete(source.files_opened(), source.part(), source.place());
  }

  // Reads the window ahead again, now that the number of its rows is known.
  void ReadAgain() {
    ReadPlace begin = ahead_.begin;
    begin.window = ahead_.rows.size();
    Reuse(ahead_);
    ahead_ = Window{.first = ahead_.first, .begin = begin};
    auto blocks = open_(begin);
    if (!blocks.ok()) return Fail(blocks.status());
    wanted_ = WantedRows(division_, options_, begin);
    const MutexLock lock(mutex_);
    blocks_ = *std::move(blocks);
    if (stopped_) blocks_->Stop();
  }

  void Complete(size_t files, double part, const std::optional<ReadPlace>& end) {
    Window& window = ahead_;
    const uint64_t rows = window.rows.size();
    window.is_complete = true;
    window.files = static_cast<uint32_t>(files);
    window.last_part = part;
    window.end = end.value_or(NoPlace(0));
    window.end.row = window.first + rows;
    if (rows < options_.read->window(options_.epoch)) window.begin.window = rows;
  }

  void Fail(Status status) {
    ahead_.is_complete = true;
    ahead_.status = std::move(status);
  }

  ShareProgress Progress() const {
    const auto rows = static_cast<double>(order_.size());
    const bool is_end = next_ == order_.size();
    ShareProgress progress{.share = options_.share,
                           .files = window_.files,
                           .next = {options_.epoch, window_.first + next_},
                           .place = is_end ? window_.end : window_.begin};
    const double done = is_end ? 1 : static_cast<double>(next_) / rows;
    const double part = window_.first_part + (window_.last_part - window_.first_part) * done;
    const auto next = static_cast<double>(progress.next.row);
    if (part > 0) progress.rows = static_cast<uint64_t>(next / part);
    return progress;
  }

  const Division division_;
  const ReadOptions options_;
  const OpenBlocks open_;
  const bool fails_on_change_;  // If rows that were read are gone.
  const uint64_t read_end_;     // The row from which on none has been read.
  WantedRows wanted_;
  BatchBuilder builder_;
  RowNotes notes_;

  Window window_;                             // Rows are taken from it.
  std::vector<uint32_t> order_;               // Its rows in the order of training.
  size_t next_ = 0;                           // Next place in order_.
  std::vector<const uint32_t*> taken_;        // Its rows that are not in builder_ yet.
  Window ahead_;                              // The window that follows.
  std::vector<std::vector<uint32_t>> spare_;  // Memory for records.

  std::atomic<bool> stopped_ = false;
  Mutex mutex_;                           // Held while blocks_ is replaced.
  std::unique_ptr<ParsedBlocks> blocks_;  // The owner reads it without the lock.
};

}  // namespace

StatusOr<std::unique_ptr<BatchReader>> OpenShuffledReader(
    const DataConfig& config, OpenBlocks open, const std::function<BatchBuilder()>& make_builder,
    size_t batch_size, const ReadOptions& options, const ReadPlace& from) {
  SIMURGH_ASSIGN_OR_RETURN(auto blocks, open(from));
  return std::make_unique<ShuffledReader>(config, std::move(open), std::move(blocks), make_builder,
                                          batch_size, options, from);
}

}  // namespace simurgh
