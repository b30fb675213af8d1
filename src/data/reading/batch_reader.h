#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "config/feature_config.h"
#include "data/batch/batch.h"
#include "data/batch/batch_builder.h"
#include "data/reading/file_identity.h"

namespace simurgh {

// Places of the configured columns in the rows of a file.
struct FileColumns {
  static constexpr size_t kAbsent = ~size_t{0};

  size_t width = 0;           // Number of cells of a row.
  std::vector<size_t> cells;  // One per column of ColumnsOf(): index of its cell, or kAbsent.

  bool operator==(const FileColumns&) const = default;
};

// Reads files of one data set, in order, as batches.
//
// Threads: one owner.
class BatchReader {
 public:
  virtual ~BatchReader() = default;

  // Returns the next `batch_size` samples, fewer at the end of the last file, then nothing.
  // Errors: NOT_FOUND, PERMISSION_DENIED for a file; INVALID_ARGUMENT for a bad row, naming file,
  // line, column and value; FAILED_PRECONDITION from a plug-in that cannot continue, or for
  // a file that changed; DATA_LOSS for a truncated compressed stream. After a bad row the next call
  // continues with the next row.
  virtual StatusOr<std::optional<Batch>> Next() = 0;

  // Ends a blocked Next, now or later, with CANCELLED. Files block only while they skip rows.
  // Threads: any.
  virtual void Stop() {}

  // Returns the number of bad rows skipped so far.
  virtual uint64_t skipped_rows() const = 0;
};

// Called with each row, in order, before the batch with it: its line, with the configured columns
// in order, and whether the batch has it.
using RowObserver = std::function<void(std::string_view line, bool in_batch)>;

class BadRowFile;

struct ReadOptions {
  // Fraction of negative rows to keep, below 1. Every read keeps the same rows.
  double keep_negatives = 1.0;
  uint64_t seed = 0;  // Seed that chooses the kept rows.
  // Fraction of rows to keep, whatever their label; which ones depends on the seed and the epoch.
  double keep_rows = 1.0;

  // Rows are counted over all files and split into chunks of this many batches. The reader gets
  // chunks share, share + shares, ..., so `shares` readers read every row once.
  uint32_t share = 0;
  uint32_t shares = 1;
  uint32_t piece_batches = 1;

  // Leaves out rows of the epoch that have been read: reading begins at the share's place, and
  // later rows that have been read are not parsed. Null: none. Outlives the reader.
  const DataPosition* read = nullptr;
  uint32_t epoch = 0;

  // Finds files that change between readings or during one; null: changes are not found. Outlives
  // the reader.
  FileIdentities* identities = nullptr;

  // Gets the first bad rows that are skipped; null: only the log names them. Outlives the reader.
  BadRowFile* bad_rows = nullptr;

  RowObserver on_row;  // May be empty.
  // Called for each row, in order, before the batch with it: whether the batch has it. May be
  // empty.
  std::function<void(bool in_batch)> on_result;
  // Labels are 0 and weights 1, whatever their cells, and files or rows may lack their columns.
  bool ignore_labels = false;
  bool short_batches = false;   // A batch also ends where an idle source has no more rows.
  bool are_lines = false;       // The files have the format of LinesOf().
  bool copies_skipped = false;  // `on_row` also gets columns of kind `skip`.
  // Number of threads, at least 1, that read and parse rows ahead of Next(); the batches do not
  // depend on it. With 1, and for pipes and streams, Next() reads and parses.
  uint32_t threads = 1;
  bool allow_pipes = false;  // Next() then waits for the writer, also after Stop().
};

// Opens `files` in the format of `config`; detects gzip and zstd by their first bytes. The batch
// has `features` and DenseColumns(config), in that order. Requires fitted statistics
// (FitStatistics).
//
// A bad row is an error; with config.on_bad_row it is skipped, counted and, for the first few,
// logged. Blank lines are skipped. Errors: those of Next, for the first file; INVALID_ARGUMENT for
// a batch size above kMaxBatchSamples or a feature that names a missing column.
StatusOr<std::unique_ptr<BatchReader>> OpenBatchReader(const DataConfig& config,
                                                       const std::vector<FeatureConfig>& features,
                                                       const std::vector<std::string>& files,
                                                       size_t batch_size,
                                                       const ReadOptions& options = {});

// Returns a builder of batches like those of OpenBatchReader().
BatchBuilder NewBuilder(const DataConfig& config, const std::vector<FeatureConfig>& features);

// Reads up to fit_rows rows of the training files and fills in missing statistics: mean and stddev
// of dense columns with `fit`, boundaries of features with `quantiles`. A column with one distinct
// number has the deviation 1, and a warning. Reads nothing if no statistics are missing. The result
// is deterministic; a bad row counts in no statistic.
//
// Errors: those of reading and processing; INVALID_ARGUMENT for an overflowing deviation, or
// quantiles that give no boundary.
// identities: see ReadOptions.
// Cost: one epoch with processing; 8 bytes for each number of a feature with quantiles.
Status FitStatistics(DataConfig& config, std::vector<FeatureConfig>& features,
                     FileIdentities* identities = nullptr);

// Returns the names of the label columns in file order: one task each.
std::vector<std::string> LabelColumns(const DataConfig& config);

// Returns ReadOptions::threads, as data.threads sets it.
uint32_t ReadingThreads(const DataConfig& config);

bool HasSampleWeights(const DataConfig& config);

// Returns the names of the dense columns in file order, then the derived ones.
std::vector<std::string> DenseColumns(const DataConfig& config);

}  // namespace simurgh
