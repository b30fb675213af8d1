#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "simurgh/base/file_descriptor.h"
#include "simurgh/base/status.h"

namespace simurgh {

// The name of a file until it is complete: PATH.tmp-PID. The destructor removes the file, and so do
// SIGINT, SIGTERM and SIGHUP, which then end the process.
//
// Threads: one owner. At most one at a time in the process.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(std::string path);
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;
  ~UnfinishedFile();

  const std::string& name() const { return name_; }
  // Gives the file its path. Errors: of rename().
  Status Finish();

 private:
  const std::string path_;
  const std::string name_;
};

// Rows of text that go to a file or to stdout. A file gets its name when it is complete; what is
// not finished is removed.
//
// Threads: one owner.
class OutputFile {
 public:
  // path: "-" for stdout. Errors: those of the system calls, naming the path.
  static StatusOr<std::unique_ptr<OutputFile>> Open(const std::string& path);

  // Errors: CANCELLED if the reader of a pipe has ended; those of write(), naming the path.
  Status Append(std::string_view text);
  // Must be the last call.
  Status Finish();

 private:
  OutputFile(std::string path, std::unique_ptr<UnfinishedFile> unfinished, FileDescriptor file)
      : path_(std::move(path)), unfinished_(std::move(unfinished)), file_(std::move(file)) {}
  Status Write();

  const std::string path_;
  const std::unique_ptr<UnfinishedFile> unfinished_;  // Null: written in place.
  FileDescriptor file_;
  std::string buffer_;
};

}  // namespace simurgh
