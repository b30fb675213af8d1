#pragma once

#include <string>

#include "simurgh/base/file_descriptor.h"

namespace simurgh {

// Shows the growing log of an nn-worker on stderr. On a terminal, progress lines are shortened, and
// each overwrites the one before.
//
// Threads: one owner.
class LogView {
 public:
  // path: an existing file.
  explicit LogView(const std::string& path);
  ~LogView() { EndLine(); }

  // Shows the lines that are complete.
  void Show();
  // Before other output: ends a line of progress.
  void EndLine();

 private:
  void ShowLine(const std::string& line);

  const FileDescriptor file_;
  const bool on_terminal_;
  bool may_overwrite_ = false;  // The cursor is in a line of progress.
  std::string incomplete_;
};

// The last lines of a file, at most `lines` of them and 16 KiB. Empty if it cannot be read.
std::string LastLines(const std::string& path, size_t lines);

}  // namespace simurgh
