#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "data/row_source.h"
#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/data/batch_builder.h"
#include "simurgh/data/batch_reader.h"
#include "simurgh/data/data_position.h"

namespace simurgh {

// The rows that a reader of a share takes: those of its chunks that have not been read.
class WantedRows {
 public:
  WantedRows(const Division& division, const ReadOptions& options);

  // The first such row from `row` on, or one before it.
  uint64_t From(uint64_t row) const;
  size_t batch_size() const { return division_.batch_size; }
  // No row from here on has been read.
  uint64_t read_end() const { return read_end_; }

 private:
  Division division_;
  uint32_t share_;
  uint32_t epoch_;
  const DataPosition* read_;  // May be null.
  uint64_t read_end_;
};

// A block of rows and what its parsing gave.
struct ParsedBlock {
  enum class Row : uint8_t { kUnwanted, kKept, kDropped, kBad };
  // A bad row, or one with a warning.
  struct Note {
    size_t row;
    Status problem;  // OK: a warning.
    std::string place;
    std::string warning;
    std::string text;  // Of the first bad rows, if they are written.
  };

  std::unique_ptr<RowBlock> block;
  Status status;                   // Of reading; if it failed, there are no rows.
  bool has_rows = false;           // False: the source is idle or at its end.
  uint64_t first = 0;              // Number of the first row.
  std::vector<Row> rows;           // What became of each.
  BatchBuilder samples;            // Of the kept rows.
  std::vector<Note> notes;         // In order of rows: bad ones, and the first warnings.
  std::vector<std::string> texts;  // Of the rows that are wanted, for an observer.
};

// Reads blocks of a source and parses them, by the caller or by several threads ahead of it. Blocks
// come in order, and are the same with any number of threads.
//
// Threads: one owner; Stop: any.
class ParsedBlocks {
 public:
  static constexpr uint64_t kLoggedRows = 10;  // Warnings of a block that are kept.

  // consumers: of the rows, one for each thread; with one, the caller of Next() is the thread.
  // make_builder: for the samples of a block. first: number of the source's first row.
  ParsedBlocks(std::unique_ptr<RowSource> source,
               std::vector<std::unique_ptr<RowConsumer>> consumers,
               const std::function<BatchBuilder()>& make_builder, const WantedRows& wanted,
               const ReadOptions& options, uint64_t first);
  ~ParsedBlocks();
  ParsedBlocks(const ParsedBlocks&) = delete;
  ParsedBlocks& operator=(const ParsedBlocks&) = delete;

  // The next block. Lifetime: until the next call.
  ParsedBlock& Next();

  // Ends a long skip of rows, now or later, with CANCELLED.
  void Stop() { stopped_ = true; }

  // Call only after a block without rows, or AddTo().
  RowSource& source() { return *source_; }

 private:
  // Reads the next block with a row that is wanted.
  void Read(ParsedBlock& parsed);
  Status ReadWanted(ParsedBlock& parsed);
  // Logs progress of a long skip. Errors: CANCELLED after Stop.
  Status ShowSkip();
  void Parse(BlockParser& parser, ParsedBlock& parsed) const;
  void Work(BlockParser& parser);

  // Used by one thread at a time.
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
  std::vector<bool> is_parsed_ ABSL_GUARDED_BY(mutex_);  // By place in blocks_.
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;      // A thread.
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;       // The source, or this object.
  uint64_t read_ ABSL_GUARDED_BY(mutex_) = 0;            // Blocks.
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;           // Blocks that the caller is done with.
  bool is_held_ ABSL_GUARDED_BY(mutex_) = false;         // The caller has block `taken_`.
  std::vector<std::jthread> threads_;
};

}  // namespace simurgh
