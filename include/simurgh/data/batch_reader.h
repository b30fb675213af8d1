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
  // line, column and value; DATA_LOSS for a torn compressed stream. After a bad row the next call
  // goes on behind it.
  virtual StatusOr<std::optional<Batch>> Next() = 0;
};

// Opens `files` (plain, gzip or zstd, told apart by their first bytes) in the format that `config`
// describes. The batch's ID features are `features`, in that order, hash stacks applied; its dense
// columns are DenseColumns(config), in that order.
//
// Ids of CSV cells are `xxh3_64`: HashBytes of the text, XXH3-64 of seed 0. Ids of Criteo cells are
// the value of their digits. A feature that reads a dense column has the cell's text hashed. Lines
// of blanks alone are passed over.
// Errors: as Next, for the first file; INVALID_ARGUMENT for a batch size beyond kMaxBatchSamples,
// or when a feature names a column that is not there.
StatusOr<std::unique_ptr<BatchReader>> OpenBatchReader(const DataConfig& config,
                                                       const std::vector<FeatureConfig>& features,
                                                       const std::vector<std::string>& files,
                                                       size_t batch_size);

// The names of the dense columns in the order of the file.
std::vector<std::string> DenseColumns(const DataConfig& config);

}  // namespace simurgh
