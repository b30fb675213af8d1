#pragma once

#include <string>

#include "services/simurgh/progress_line.h"
#include "simurgh/base/file_descriptor.h"

namespace simurgh {

// Shows the growing log of an nn-worker on stderr. On a terminal, the last line is that of
// progress: steps, samples per second, loss, AUC of training and the time that is left. Lines of
// the log move up before it.
//
// Threads: one owner.
class LogView {
 public:
  // path: an existing file.
  explicit LogView(const std::string& path);
  ~LogView() { Erase(); }

  // Shows the lines that are complete.
  void Show();
  // Before other output: erases the line of progress until the next Show().
  void Erase() { line_.Erase(); }

 private:
  void ShowLine(const std::string& line);

  const FileDescriptor file_;
  ProgressLine line_;
  std::string progress_;  // The text of line_; empty: none yet.
  std::string incomplete_;
};

// The last lines of a file, at most `lines` of them and 16 KiB. Empty if it cannot be read.
std::string LastLines(const std::string& path, size_t lines);

}  // namespace simurgh
