#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "data/reading/batch_reader.h"
#include "data/reading/file_identity.h"
#include "data/reading/row_source.h"

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

// A file of a remote file system.
struct RemoteFile {
  std::string path;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // Nanoseconds since 1970.
};
// Returns the files that a URI names, in the order of their names, as the module lists them.
StatusOr<std::vector<RemoteFile>> ListRemoteFiles(const std::string& uri);

}  // namespace simurgh
