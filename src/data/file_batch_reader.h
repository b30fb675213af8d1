#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/parsed_blocks.h"
#include "data/row_source.h"
#include "simurgh/config/data_config.h"
#include "simurgh/data/batch_reader.h"

namespace simurgh {

// Collects the rows of a source, in order, in batches.
class FileBatchReader final : public BatchReader {
 public:
  // Opens the first file. consumers: one for each thread that parses rows.
  static StatusOr<std::unique_ptr<FileBatchReader>> Open(
      const DataConfig& config, std::vector<std::unique_ptr<RowConsumer>> consumers,
      const std::vector<std::string>& files, const std::function<BatchBuilder()>& make_builder,
      size_t batch_size, const ReadOptions& options);
  // from: where the rows begin.
  FileBatchReader(const DataConfig& config, std::unique_ptr<RowSource> source,
                  std::vector<std::unique_ptr<RowConsumer>> consumers,
                  const std::function<BatchBuilder()>& make_builder, size_t batch_size,
                  const ReadOptions& options, const ReadPlace& from = {});

  StatusOr<std::optional<Batch>> Next() override;
  uint64_t skipped_rows() const override { return skipped_rows_; }
  void Stop() override { rows_.Stop(); }

 private:
  // Adds rows of the block to the batch, unless they are bad, dropped negatives or unwanted.
  Status TakeRows();
  // Counts and shows the next row. Errors: of a bad row that ends the run.
  Status TakeRow();
  // Logs the first warnings.
  void Warn(const ParsedBlock::Note& note);
  // Counts a bad row. Returns its error if it ends the run.
  Status Skip(const ParsedBlock::Note& note);
  void AddProgress(Batch& batch);

  DataConfig config_;
  size_t batch_size_;
  ReadOptions options_;
  ReadPlace place_;  // The last one of the source.
  BatchBuilder builder_;
  ParsedBlocks rows_;
  ParsedBlock* parsed_ = nullptr;  // The present block.
  // In it, the next one:
  size_t row_ = 0;
  size_t sample_ = 0;
  size_t note_ = 0;
  size_t text_ = 0;
  uint64_t parsed_rows_ = 0;  // Of this reader's share, including bad ones.
  uint64_t skipped_rows_ = 0;
  uint64_t warnings_ = 0;
};

}  // namespace simurgh
