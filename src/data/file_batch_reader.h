#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/line_reader.h"
#include "data/row_parser.h"
#include "simurgh/config/data_config.h"
#include "simurgh/data/batch_reader.h"

namespace simurgh {

// Lines of files, one after the other, through a parser into batches.
class FileBatchReader final : public BatchReader {
 public:
  // Opens the first file.
  static StatusOr<std::unique_ptr<FileBatchReader>> Open(const DataConfig& config,
                                                         const ConsumerFactory& sink,
                                                         const std::vector<std::string>& files,
                                                         BatchBuilder builder, size_t batch_size,
                                                         const ReadOptions& options);

  StatusOr<std::optional<Batch>> Next() override;
  uint64_t skipped_rows() const override { return skipped_rows_; }

 private:
  FileBatchReader(const DataConfig& config, std::vector<std::string> files,
                  std::unique_ptr<RowParser> parser, BatchBuilder builder, size_t batch_size,
                  const ReadOptions& options);

  // Opens the next file; without one, the end is reached.
  Status OpenNextFile();
  // The next line of the files in turn, headers left out; nothing at the end of the last.
  StatusOr<std::optional<Line>> NextLine();
  Status AtLine(const Status& status) const;
  // Parses a row into the batch, unless it is a bad one or a negative to leave out.
  Status Take(const Line& line);
  Status Parse(const Line& line);
  // Counts a bad row; its error, where bad rows end the run or too many of them.
  Status Skip(const Status& problem);

  std::vector<std::string> files_;
  bool header_;
  size_t batch_size_;
  DataConfig::BadRows bad_rows_;
  uint64_t max_bad_rows_;
  ReadOptions options_;
  std::unique_ptr<RowParser> parser_;
  BatchBuilder builder_;
  size_t opened_ = 0;                  // Files opened so far.
  std::unique_ptr<LineReader> lines_;  // Of the last one opened; null at the end.
  uint64_t rows_ = 0;                  // Read so far, of all files, bad ones too.
  uint64_t skipped_rows_ = 0;
};

}  // namespace simurgh
