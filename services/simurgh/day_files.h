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
  std::string path;  // Absolute path, or a URI.
  DataFile identity;
  bool is_named = false;  // A word names the file itself, not a pattern or a folder.
};

// The files that words name: paths, patterns and folders. Each path occurs once. The files of a
// pattern or folder are in the order of their names, without files whose names begin with '.' or
// '_' or end with .tmp or .part.
struct DayFiles {
  std::vector<DayFile> files;
  bool are_collected = false;  // A pattern or a folder is named, which may get more files.
};

// Finds the files that words name. settled: leaves out files of patterns and folders that have
// changed within this time.
// Errors: INVALID_ARGUMENT for a path, or the folder of a pattern, that does not exist; those of
// IdentifyFiles.
StatusOr<DayFiles> FindDayFiles(const DataConfig& data, const std::vector<std::string>& words,
                                std::chrono::seconds settled = std::chrono::seconds(0));

// Returns the file with the same content: with equal size and ends, and with an equal time if the
// name differs. Null: there is none.
const DataFile* FindContent(const DataFile& file, const std::vector<DataFile>& files);

// Returns the files of the paths, in order, if they are still the files that were read. Errors:
// NOT_FOUND, naming the first one that is gone or has changed.
StatusOr<std::vector<DayFile>> FindAgain(const std::vector<DataFile>& read,
                                         const std::vector<std::string>& paths);

}  // namespace simurgh
