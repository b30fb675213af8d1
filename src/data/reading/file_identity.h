#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "config/data_config.h"

namespace simurgh {

struct RemoteFile;

// Identity of a file's content, without reading all of it.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // Nanoseconds since 1970.
  int64_t changed_ns = 0;   // Change of content or attributes, since 1970; users cannot set it.
  uint64_t ends = 0;        // Hash of the first and last 64 KiB.

  bool operator==(const FileIdentity&) const = default;
};

// Identifies a file. Errors: those of opening and reading the file, naming it.
StatusOr<FileIdentity> IdentifyFile(const std::string& path);

// Remembers data files, and finds those that change between two readings or during one.
//
// Threads: any.
class FileIdentities {
 public:
  explicit FileIdentities(DataConfig::OnChange on_change) : on_change_(on_change) {}

  // Compares the file with its last identity, if there is one. Call before and after reading it.
  // Errors: FAILED_PRECONDITION for a change, naming the file and what changed, unless changes only
  // give a warning in the log; those of IdentifyFile.
  Status Check(const std::string& path);

 private:
  const DataConfig::OnChange on_change_;
  Mutex mutex_;
  std::map<std::string, FileIdentity> last_ ABSL_GUARDED_BY(mutex_);  // Path -> last identity.
};

// A training file in a checkpoint. Folders may differ between machines.
struct DataFile {
  std::string name;  // Name without its folder.
  uint64_t bytes = 0;
  uint64_t ends = 0;        // See FileIdentity.
  int64_t modified_ns = 0;  // See FileIdentity. 0: not known.

  // Ignores the modification time, so copies are equal.
  bool operator==(const DataFile& other) const {
    return name == other.name && bytes == other.bytes && ends == other.ends;
  }
};

// Returns the identity of a file of an object store; it has no hash of the file's ends.
DataFile DataFileOf(const RemoteFile& file);

// Identifies training files. Errors: those of IdentifyFile.
StatusOr<std::vector<DataFile>> IdentifyFiles(const std::vector<std::string>& paths);

// Checks that rows have the same numbers as when `read` was read: the first files must be the same.
// Errors: INVALID_ARGUMENT naming the first file that differs, and both values.
Status CheckReadFiles(const std::vector<DataFile>& read, const std::vector<DataFile>& files);

// Returns a warning about files that CheckReadFiles() accepts and whose modification time has
// changed: a row in the middle can have changed, too. Empty for none.
std::string TouchedFiles(const std::vector<DataFile>& read, const std::vector<DataFile>& files);

// Returns a line for each file.
std::string DataFilesText(const std::vector<DataFile>& files);
// Parses a DataFilesText(). Errors: DATA_LOSS for another text.
StatusOr<std::vector<DataFile>> DataFilesFromText(const std::string& text);

}  // namespace simurgh
