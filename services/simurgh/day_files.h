#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "data/reading/file_identity.h"

namespace simurgh {

// A file of new rows.
struct DayFile {
  std::string path;  // Absolute, or a URI.
  DataFile identity;
  bool is_named = false;  // Itself, rather than by a pattern or a folder.
};

// The files that words name: paths, patterns and folders. Each path is there once. Those of a
// pattern or folder are in the order of their names, without files whose names begin with '.' or
// '_' or end with .tmp or .part.
struct DayFiles {
  std::vector<DayFile> files;
  bool are_collected = false;  // By a pattern or a folder, which may get more of them.
};

// settled: only files of patterns and folders that have not changed for this time.
// Errors: INVALID_ARGUMENT for a path, or the folder of a pattern, that does not exist; of
// IdentifyFiles.
StatusOr<DayFiles> FindDayFiles(const DataConfig& data, const std::vector<std::string>& words,
                                std::chrono::seconds settled = std::chrono::seconds(0));

// The file that another one is, by size and ends, and by its time if it has another name; null:
// none.
const DataFile* FindContent(const DataFile& file, const std::vector<DataFile>& files);

// The files of the paths that are still those that were read, in order. Errors: NOT_FOUND, naming
// the first one that is gone or has changed.
StatusOr<std::vector<DayFile>> FindAgain(const std::vector<DataFile>& read,
                                         const std::vector<std::string>& paths);

}  // namespace simurgh
