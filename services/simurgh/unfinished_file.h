#pragma once

#include <string>

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

}  // namespace simurgh
