#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "data/row_source.h"
#include "simurgh/config/data_config.h"
#include "simurgh/data/batch_reader.h"

namespace simurgh {

// Collects the rows of a source, in order, in batches.
class FileBatchReader final : public BatchReader {
 public:
  // Opens the first file.
  static StatusOr<std::unique_ptr<FileBatchReader>> Open(const DataConfig& config,
                                                         std::unique_ptr<RowConsumer> consumer,
                                                         const std::vector<std::string>& files,
                                                         BatchBuilder builder, size_t batch_size,
                                                         const ReadOptions& options);
  // from: where the rows begin.
  FileBatchReader(const DataConfig& config, std::unique_ptr<RowSource> rows, BatchBuilder builder,
                  size_t batch_size, const ReadOptions& options, const ReadPlace& from = {});

  StatusOr<std::optional<Batch>> Next() override;
  uint64_t skipped_rows() const override { return skipped_rows_; }
  void Stop() override { stopped_ = true; }

 private:
  // The first row from rows_ on that is of this share and has not been read, or one before it.
  uint64_t EndOfUnwanted() const;
  // Logs progress of a long skip. Errors: CANCELLED after Stop.
  Status ShowSkip();
  // Adds the row to the batch, unless it is bad, a dropped negative or unwanted.
  Status Take();
  // Gives the row to the observer of the options, if there is one.
  void Observe(bool in_batch) const;
  // Logs the first warnings of the parser.
  void Warn(const std::string& warning);
  // Counts a bad row. Returns its error if it ends the run.
  Status Skip(const Status& problem);

  DataConfig config_;
  size_t batch_size_;
  ReadOptions options_;
  Division division_;
  uint64_t read_end_;  // No row from here on has been read.
  ReadPlace place_;    // The last one of the source.
  std::unique_ptr<RowSource> source_;
  BatchBuilder builder_;
  uint64_t rows_;             // Number of the next row.
  uint64_t wanted_ = 0;       // Rows before it, from rows_ on, are left out.
  uint64_t parsed_rows_ = 0;  // Of this reader's share, including bad ones.
  uint64_t skipped_rows_ = 0;
  uint64_t warnings_ = 0;
  std::chrono::steady_clock::time_point shown_ = std::chrono::steady_clock::now();
  std::atomic<bool> stopped_ = false;
};

}  // namespace simurgh
