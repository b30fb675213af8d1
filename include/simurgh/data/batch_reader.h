#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"
#include "simurgh/config/feature_config.h"
#include "simurgh/data/batch.h"

namespace simurgh {

// Reads files of one data set, in order, as batches.
//
// Threads: one owner.
class BatchReader {
 public:
  virtual ~BatchReader() = default;

  // The next batch of exactly `batch_size` samples, at the end of the last file one of fewer, then
  // nothing.
  // Errors: NOT_FOUND, PERMISSION_DENIED for a file; INVALID_ARGUMENT for a bad row, naming file,
  // line, column and value; FAILED_PRECONDITION from a plug-in that cannot go on; DATA_LOSS for a
  // torn compressed stream. After a bad row the next call
  // goes on behind it.
  virtual StatusOr<std::optional<Batch>> Next() = 0;

  // Ends a Next that waits for somebody, now or later, with CANCELLED; files wait for nobody.
  // Threads: any.
  virtual void Stop() {}

  // Bad rows that were left out so far.
  virtual uint64_t skipped_rows() const = 0;
};

struct ReadOptions {
  // Below 1: of the negative rows, this share is kept, the same ones whenever the files are read.
  double keep_negatives = 1.0;
  uint64_t seed = 0;  // Which ones.

  // Of the rows, counted over all files and parted into pieces of so many batches each, those of
  // the pieces share, share + shares, ... So `shares` readers read every row once.
  uint32_t share = 0;
  uint32_t shares = 1;
  uint32_t piece_batches = 1;
};

// Opens `files` (plain, gzip or zstd, told apart by their first bytes) in the format that `config`
// describes. The batch's ID features are `features`, in that order, each processed as it says;
// its dense columns are DenseColumns(config), in that order. Statistics must have been fitted
// (see FitStatistics).
//
// A bad row is an error, or, where config.bad_rows says so, left out, counted and, for the first
// few, logged. Lines of blanks alone are passed over.
// Errors: as Next, for the first file; INVALID_ARGUMENT for a batch size beyond kMaxBatchSamples,
// or when a feature names a column that is not there.
StatusOr<std::unique_ptr<BatchReader>> OpenBatchReader(const DataConfig& config,
                                                       const std::vector<FeatureConfig>& features,
                                                       const std::vector<std::string>& files,
                                                       size_t batch_size,
                                                       const ReadOptions& options = {});

// Reads the training files once and fills in what the configuration leaves to them: mean and
// stddev of dense columns with `fit`, boundaries of features with `quantiles`. Does nothing, and
// reads nothing, where there are none. The same files give the same statistics; a row that is bad,
// for whatever column or feature, counts in none.
//
// Errors: of reading, processing included; INVALID_ARGUMENT for a column without two different
// numbers, or whose numbers are too far apart for a deviation, or whose quantiles part nothing.
//
// Cost: a pass, processing included; 8 bytes for each number of a feature with quantiles.
Status FitStatistics(DataConfig& config, std::vector<FeatureConfig>& features);

// The names of the label columns in the order of the file: one task each.
std::vector<std::string> LabelColumns(const DataConfig& config);

// The names of the dense columns in the order of the file, then the derived ones.
std::vector<std::string> DenseColumns(const DataConfig& config);

}  // namespace simurgh
