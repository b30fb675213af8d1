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
// environment variable SIMURGH_ARROW_MODULE, from the program's folder, or from lib/simurgh beside
// it.
//
// files: of `format: parquet`, files and URIs of files, folders and patterns; of `format: arrow`,
// IPC files, or streams: `-`, standard input; `unix:PATH`, a socket that a program listens at.
// Errors: as OpenRowSource; FAILED_PRECONDITION without the module, with the remedy.
StatusOr<std::unique_ptr<RowSource>> OpenArrowSource(const DataConfig& config,
                                                     const std::vector<std::string>& files,
                                                     const ReadOptions& options);

// The columns of a Parquet or Arrow file, or of the first of a folder or pattern: ids, those of
// lists with kListSeparator as their separator; what has weights or is not read is skipped.
// Errors: as OpenArrowSource.
StatusOr<std::vector<ColumnConfig>> ArrowColumns(DataConfig::Format format,
                                                 const std::string& path);

// Rows of Arrow data in memory.
class ArrowRecords : public RowSource {
 public:
  // Goes before the first row of an IPC file or stream, which outlives its rows. Errors: as
  // OpenRowSource.
  virtual Status Open(std::string_view bytes) = 0;
  // Whether Read() gives rows; it then has no error. Errors: as Read().
  virtual StatusOr<bool> HasRows() = 0;
};
// Errors: FAILED_PRECONDITION as OpenArrowSource.
StatusOr<std::unique_ptr<ArrowRecords>> NewArrowRecords(const DataConfig& config);

// The files that a URI names, in the order of their names, as the module lists them.
struct RemoteFile {
  std::string path;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // Since 1970.
};
StatusOr<std::vector<RemoteFile>> ListRemoteFiles(const std::string& uri);

}  // namespace simurgh
