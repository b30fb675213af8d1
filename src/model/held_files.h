#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/file_system.h"

namespace simurgh {

// Files that stay readable after they are removed, since they are open. Other calls go to the file
// system below.
//
// Threads: any, after the last Hold().
class HeldFiles : public FileSystem {
 public:
  // Raises the limit of open files to what the system allows.
  explicit HeldFiles(FileSystem& below);

  // Opens a file. Does nothing if it is missing or not a regular one. Errors: those of Open().
  Status Hold(const std::string& path);

  StatusOr<std::unique_ptr<File>> Create(const std::string& path) override;
  StatusOr<std::unique_ptr<File>> Open(const std::string& path) override;
  Status MakeFolder(const std::string& path) override { return below_.MakeFolder(path); }
  Status SyncFolder(const std::string& path) override { return below_.SyncFolder(path); }
  StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return below_.List(path);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return below_.Rename(from, to);
  }
  Status Exchange(const std::string& a, const std::string& b) override {
    return below_.Exchange(a, b);
  }
  Status Remove(const std::string& path) override { return below_.Remove(path); }
  StatusOr<uint64_t> FreeBytes(const std::string& folder) override {
    return below_.FreeBytes(folder);
  }
  size_t calls_at_once() const override { return below_.calls_at_once(); }

 private:
  FileSystem& below_;
  std::map<std::string, std::shared_ptr<File>> files_;  // Open files by path.
};

}  // namespace simurgh
