#include "data/reading/parsed_blocks.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "data/reading/bad_row_file.h"
#include "data/reading/row_sampling.h"

namespace simurgh {
namespace {

constexpr std::chrono::seconds kSkipInterval{5};  // Time between reports of a long skip.
// Blocks that are parsed ahead. With these, no thread waits while another is late.
constexpr size_t kBlocksPerThread = 2;
constexpr size_t kLeastRows = 64;  // Least limit of a block, since a hand-over has a cost.

}  // namespace

Division DivisionOf(size_t batch_size, const ReadOptions& options) {
  return {.batch_size = static_cast<uint32_t>(batch_size),
          .piece_batches = options.piece_batches,
          .shares = options.shares};
}

WantedRows::WantedRows(const Division& division, const ReadOptions& options, const ReadPlace& from)
    : division_(division),
      share_(options.share),
      epoch_(options.epoch),
      seed_(options.seed),
      read_(options.read),
      window_rows_(read_ == nullptr ? 0 : read_->window(epoch_)),
      begin_(from.row),
      read_end_(read_ == nullptr ? 0 : read_->EndOfRead(epoch_)) {
  if (!is_shuffled()) return;
  short_ = read_->short_windows(epoch_);
  if (from.window > 0) short_[from.row] = from.window;
  const RowNumber begin = read_->BeginOf(division, share_);
  read_end_ = WindowOf(begin.epoch == epoch_ ? std::max(begin.row, from.row) : from.row).first;
}

uint64_t WantedRows::From(uint64_t row) const {
  if (is_shuffled()) return std::max(row, read_end_);
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

WantedRows::Window WantedRows::WindowOf(uint64_t row) const {
  uint64_t first = begin_;  // Begin of the windows before the next short one.
  for (const auto& [begin, rows] : short_) {
    if (begin < first) continue;
    if (row < begin) break;
    if (row < begin + rows) return {begin, rows};
    first = begin + rows;
  }
  return {first + (row - first) / window_rows_ * window_rows_, window_rows_};
}

std::shared_ptr<const std::vector<bool>> WantedRows::OfShare(const Window& window) const {
  if (division_.shares == 1) return nullptr;
  const std::vector<uint32_t> order = ShuffledRows(seed_, epoch_, window.first, window.rows);
  auto of_share = std::make_shared<std::vector<bool>>(window.rows);
  for (uint64_t i = 0; i < window.rows; ++i) {
    (*of_share)[order[i]] = division_.ShareOf(window.first + i) == share_;
  }
  return of_share;
}

ParsedBlocks::ParsedBlocks(std::unique_ptr<RowSource> source,
                           std::vector<std::unique_ptr<RowConsumer>> consumers,
                           const std::function<BatchBuilder()>& make_builder,
                           const WantedRows& wanted, const ReadOptions& options, uint64_t first)
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

ParsedBlocks::~ParsedBlocks() {
  stopped_ = true;
  const MutexLock lock(mutex_);
  has_ended_ = true;
  changed_.NotifyAll();
}

ParsedBlock& ParsedBlocks::Next() {
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

void ParsedBlocks::Work(BlockParser& parser) {
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

void ParsedBlocks::Read(ParsedBlock& parsed) {
  parsed.rows.clear();
  parsed.notes.clear();
  parsed.texts.clear();
  parsed.samples.Clear();
  parsed.has_rows = false;
  parsed.status = ReadWanted(parsed);
}

Status ParsedBlocks::ReadWanted(ParsedBlock& parsed) {
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
    if (wanted_.is_shuffled()) {
      if (next_row_ >= wanted && window_.first + window_.rows <= next_row_) {
        window_ = wanted_.WindowOf(next_row_);
        of_share_ = wanted_.OfShare(window_);
      }
      parsed.window = window_;
      parsed.of_share = of_share_;
      // A block has no row before the first window, nor of two windows.
      const uint64_t end = next_row_ < wanted ? wanted : window_.first + window_.rows;
      parsed.block->max_rows =
          std::min<uint64_t>(std::max(kLeastRows, wanted_.batch_size()), end - next_row_);
    }
    SIMURGH_ASSIGN_OR_RETURN(const bool has_rows, source_->Read(*parsed.block));
    if (!has_rows) return absl::OkStatus();
    next_row_ += parsed.block->rows;
    parsed.has_rows = wanted < next_row_;
    if (parsed.has_rows) return absl::OkStatus();
    if (next_row_ <= wanted_.read_end()) SIMURGH_RETURN_IF_ERROR(ShowSkip());
  }
}

Status ParsedBlocks::ShowSkip() {
  if (stopped_) return absl::CancelledError("reading was stopped");
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < kSkipInterval) return absl::OkStatus();
  shown_ = now;
  spdlog::info("skipping rows that have been read: epoch={} rows={} files={}", options_.epoch + 1,
               next_row_, source_->files_opened());
  return absl::OkStatus();
}

void ParsedBlocks::Parse(BlockParser& parser, ParsedBlock& parsed) const {
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
    if (parsed.of_share != nullptr && !(*parsed.of_share)[number - parsed.window.first]) continue;
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
  if (wanted_.is_shuffled()) parsed.samples.Pack(parsed.records, parsed.record_begins);
}

}  // namespace simurgh
