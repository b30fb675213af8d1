#include <algorithm>
#include <string>
#include <utility>

#include "data/reading/parsed_blocks.h"
#include "data/reading/row_notes.h"
#include "data/reading/row_source.h"
#include "data/reading/shuffled_reader.h"

namespace simurgh {
namespace {

// Collects the rows of a source, in order, in batches.
class FileBatchReader final : public BatchReader {
 public:
  FileBatchReader(const DataConfig& config, std::unique_ptr<RowSource> source,
                  std::vector<std::unique_ptr<RowConsumer>> consumers,
                  const std::function<BatchBuilder()>& make_builder, size_t batch_size,
                  const ReadOptions& options, const ReadPlace& from)
      : batch_size_(batch_size),
        options_(options),
        place_(from),
        builder_(make_builder()),
        rows_(std::move(source), std::move(consumers), make_builder,
              WantedRows(DivisionOf(batch_size, options), options, from), options, from.row),
        notes_(config, options.bad_rows) {}

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
  uint64_t skipped_rows() const override { return notes_.bad(); }
  void Stop() override { rows_.Stop(); }

 private:
  // Counts the next row and gives it to the observer. Errors: that of a bad row that ends the run.
  Status TakeRow() {
    const ParsedBlock& parsed = *parsed_;
    const ParsedBlock::Row became = parsed.rows[row_];
    const bool is_noted = note_ < parsed.notes.size() && parsed.notes[note_].row == row_;
    ++row_;
    if (became == ParsedBlock::Row::kUnwanted) return absl::OkStatus();
    notes_.CountRow();
    if (options_.on_result) options_.on_result(became == ParsedBlock::Row::kKept);
    if (options_.on_row) {
      options_.on_row(parsed.texts[text_++], became == ParsedBlock::Row::kKept);
    }
    return is_noted ? notes_.Take(parsed.notes[note_++]) : absl::OkStatus();
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

  size_t batch_size_;
  ReadOptions options_;
  ReadPlace place_;  // The last place of the source.
  BatchBuilder builder_;
  ParsedBlocks rows_;
  RowNotes notes_;
  ParsedBlock* parsed_ = nullptr;  // The present block.
  // Indexes of the next row of the present block, and of its sample, note and text.
  size_t row_ = 0;
  size_t sample_ = 0;
  size_t note_ = 0;
  size_t text_ = 0;
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
    const DataConfig& config, const MakeConsumers& make_consumers,
    const std::vector<std::string>& files, const std::function<BatchBuilder()>& make_builder,
    size_t batch_size, const ReadOptions& options) {
  const Division division = DivisionOf(batch_size, options);
  const ReadPlace from = options.read == nullptr
                             ? ReadPlace()
                             : options.read->PlaceOf(division, options.share, options.epoch);
  if (options.read == nullptr || options.read->window(options.epoch) == 0) {
    SIMURGH_ASSIGN_OR_RETURN(auto consumers, make_consumers());
    SIMURGH_ASSIGN_OR_RETURN(auto source, OpenRowSource(config, files, options, from));
    return std::make_unique<FileBatchReader>(config, std::move(source), std::move(consumers),
                                             make_builder, batch_size, options, from);
  }
  const auto open = [=](const ReadPlace& place) -> StatusOr<std::unique_ptr<ParsedBlocks>> {
    const ReadPlace begin = place.file == ReadPlace::kNoFile ? ReadPlace() : place;
    SIMURGH_ASSIGN_OR_RETURN(auto consumers, make_consumers());
    SIMURGH_ASSIGN_OR_RETURN(auto source, OpenRowSource(config, files, options, begin));
    return std::make_unique<ParsedBlocks>(std::move(source), std::move(consumers), make_builder,
                                          WantedRows(division, options, place), options, begin.row);
  };
  return OpenShuffledReader(config, open, make_builder, batch_size, options, from);
}

}  // namespace simurgh
