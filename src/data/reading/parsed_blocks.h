#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "data/batch/batch_builder.h"
#include "data/batch/data_position.h"
#include "data/reading/batch_reader.h"
#include "data/reading/row_source.h"

namespace simurgh {

// Most warnings that a block keeps, and that a reader logs.
inline constexpr uint64_t kLoggedRows = 10;

// Returns the division of the rows among the readers of the data.
Division DivisionOf(size_t batch_size, const ReadOptions& options);

// The rows that a reader of a share takes: those of its chunks that have not been read. Of a
// shuffled epoch: those of its chunks, in all windows that may have unread rows.
class WantedRows {
 public:
  // from: the reader's place.
  WantedRows(const Division& division, const ReadOptions& options, const ReadPlace& from);

  // Returns the first wanted row from `row` on, or one before it. Of a shuffled epoch: a window
  // begins there, or it is `row`.
  uint64_t From(uint64_t row) const;
  size_t batch_size() const { return division_.batch_size; }
  // Returns the row from which on none has been read; of a shuffled epoch, the first window's.
  uint64_t read_end() const { return read_end_; }

  bool is_shuffled() const { return window_rows_ > 0; }
  struct Window {
    uint64_t first = 0;  // Number of the first row.
    uint64_t rows = 0;   // Unless the data ends in it.
  };
  // Returns the window of a row, at or after read_end(), of a shuffled epoch.
  Window WindowOf(uint64_t row) const;
  // Returns whether each row of the window is in the share. Null: all are.
  std::shared_ptr<const std::vector<bool>> OfShare(const Window& window) const;

 private:
  Division division_;
  uint32_t share_;
  uint32_t epoch_;
  uint64_t seed_;
  const DataPosition* read_;            // May be null.
  uint64_t window_rows_;                // 0: the epoch is not shuffled.
  uint64_t begin_;                      // A window begins there.
  std::map<uint64_t, uint64_t> short_;  // Rows of windows that are not full, by first row.
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
  // The following are set in a shuffled epoch. Records are the samples; see BatchBuilder::Pack().
  std::vector<uint32_t> records;
  std::vector<size_t> record_begins;
  WantedRows::Window window;
  std::shared_ptr<const std::vector<bool>> of_share;  // See WantedRows::OfShare().
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
               const ReadOptions& options, uint64_t first);
  ~ParsedBlocks();
  ParsedBlocks(const ParsedBlocks&) = delete;
  ParsedBlocks& operator=(const ParsedBlocks&) = delete;

  // Returns the next block. Of a shuffled epoch, it is of one window. Lifetime: until the next
  // call.
  ParsedBlock& Next();

  // Ends a long skip of rows, now or later, with CANCELLED.
  void Stop() { stopped_ = true; }

  // Frees the memory of the last block's rows. Requires one parser.
  void Release() { parsers_.front()->Release(); }

  // Returns the source. Call only after a block without rows, or for AddTo().
  RowSource& source() { return *source_; }

 private:
  void Work(BlockParser& parser);
  // Reads the next block with a row that is wanted.
  void Read(ParsedBlock& parsed);
  Status ReadWanted(ParsedBlock& parsed);
  // Logs progress of a long skip. Errors: CANCELLED after Stop.
  Status ShowSkip();
  void Parse(BlockParser& parser, ParsedBlock& parsed) const;

  // One thread at a time uses the source and the members up to shown_.
  std::unique_ptr<RowSource> source_;
  uint64_t next_row_;
  WantedRows::Window window_;  // Window of the last block of a shuffled epoch.
  std::shared_ptr<const std::vector<bool>> of_share_;
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

}  // namespace simurgh
