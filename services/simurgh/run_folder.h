#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "base/file_descriptor.h"
#include "base/status.h"

namespace simurgh {

// The folder of the logs, which may have the token of the run.
class RunFolder {
 public:
  // given: value of --logs; empty for a temporary folder.
  static StatusOr<std::unique_ptr<RunFolder>> Create(const std::string& given);
  Status WriteToken() const;

  // Removes the token, and a new folder if it is empty.
  ~RunFolder() {
    std::error_code ignored;
    std::filesystem::remove(token(), ignored);
    if (is_new_) std::filesystem::remove(path_, ignored);
  }

  // Removes a temporary folder. Call it after a success.
  void Discard() {
    std::error_code ignored;
    if (is_temporary_) std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string token() const { return path_ + "/token"; }

 private:
  RunFolder(std::string path, FileDescriptor lock, bool is_new, bool is_temporary)
      : path_(std::move(path)),
        lock_(std::move(lock)),
        is_new_(is_new),
        is_temporary_(is_temporary) {}

  // Locks a folder, because two runs would overwrite each other's files. Errors: INVALID_ARGUMENT.
  static StatusOr<FileDescriptor> Lock(const std::string& path);

  const std::string path_;  // An absolute path.
  const FileDescriptor lock_;
  const bool is_new_;
  const bool is_temporary_;
};

// Locks a model's folder until the descriptor is closed: alone for an update, together for
// trainings, of which a newer one takes over. Locks nothing without a folder, or in a bucket, where
// a newer start takes over.
// Errors: INVALID_ARGUMENT if another command has a lock that excludes it.
StatusOr<FileDescriptor> LockModel(const std::string& model, bool alone);

}  // namespace simurgh
