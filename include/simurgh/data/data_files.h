#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh {

// What a checkpoint remembers of a training file. Folders may differ between machines.
struct DataFile {
  std::string name;  // Without its folder.
  uint64_t bytes = 0;
  uint64_t ends = 0;  // See FileIdentity.

  bool operator==(const DataFile&) const = default;
};

// Errors: as IdentifyFile.
StatusOr<std::vector<DataFile>> IdentifyFiles(const std::vector<std::string>& paths);

// Whether rows have the same numbers as when `read` was read: the first files must be the same.
// Errors: INVALID_ARGUMENT naming the first file that differs, and both values.
Status CheckReadFiles(const std::vector<DataFile>& read, const std::vector<DataFile>& files);

// A line for each file.
std::string DataFilesText(const std::vector<DataFile>& files);
// Errors: DATA_LOSS for another text.
StatusOr<std::vector<DataFile>> DataFilesFromText(const std::string& text);

}  // namespace simurgh
