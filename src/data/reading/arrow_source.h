#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "config/feature_config.h"
#include "data/batch/batch.h"
#include "data/reading/batch_reader.h"
#include "data/reading/file_identity.h"
#include "data/reading/row_source.h"
#include "simurgh/arrow_c_data.h"

namespace simurgh {

// Reads rows of Parquet and Arrow data by libsimurgh_arrow.so, which is loaded from the path in the
// environment variable SIMURGH_ARROW_MODULE, from the program's folder, or from lib/simurgh next to
// that.
//
// files: with `format: parquet`, files and URIs of files, folders and patterns; with `format:
// arrow`, IPC files, or streams: `-`, standard input; `unix:PATH`, a socket on which a program
// listens. Errors: those of OpenRowSource; FAILED_PRECONDITION without the module, with the remedy.
StatusOr<std::unique_ptr<RowSource>> OpenArrowSource(const DataConfig& config,
                                                     const std::vector<std::string>& files,
                                                     const ReadOptions& options);

// Returns the columns of a Parquet or Arrow file, or of the first of a folder or pattern, as ids.
// Lists have kListSeparator as their separator; columns that have weights or cannot be read are
// skipped. Errors: those of OpenArrowSource.
StatusOr<std::vector<ColumnConfig>> ArrowColumns(DataConfig::Format format,
                                                 const std::string& path);

// Rows of Arrow data in memory.
class ArrowRecords : public RowSource {
 public:
  // Goes before the first row of an IPC file or stream, which outlives its rows. Errors: those of
  // OpenRowSource.
  virtual Status Open(std::string_view bytes) = 0;
  // Returns whether Read() gives rows; it then has no error. Errors: those of Read().
  virtual StatusOr<bool> HasRows() = 0;
};
// Returns a reader of Arrow data in memory. Errors: FAILED_PRECONDITION without the module.
StatusOr<std::unique_ptr<ArrowRecords>> NewArrowRecords(const DataConfig& config);

// Collects the rows of Arrow tables of this process in batches, across the ends of tables.
//
// Threads: one owner.
class ArrowTableBatcher {
 public:
  virtual ~ArrowTableBatcher() = default;

  // Takes over a table. Requires that Next() has returned nothing since the last one. Errors: those
  // of OpenRowSource; INVALID_ARGUMENT for a column of another type than that of the first table.
  virtual Status Add(ArrowArrayStream* table) = 0;
  // Returns the next full batch; nothing: it needs another table. After End(), and with
  // short_batches at the end of each table, the last batch may have fewer samples. Its progress
  // counts the rows of all tables. Errors: those of BatchReader.
  virtual StatusOr<std::optional<Batch>> Next() = 0;
  // No table follows.
  virtual void End() = 0;
  virtual uint64_t skipped_rows() const = 0;
};
// options: keep_negatives, seed, ignore_labels, on_result and short_batches apply. With the last
// one, tables may differ in the types of their columns, and equal ones cost less.
std::unique_ptr<ArrowTableBatcher> NewArrowTableBatcher(const DataConfig& config,
                                                        const std::vector<FeatureConfig>& features,
                                                        size_t batch_size,
                                                        const ReadOptions& options);

}  // namespace simurgh
