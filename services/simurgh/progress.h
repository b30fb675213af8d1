#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file_descriptor.h"

namespace simurgh {

// Shows progress on stderr: one line that changes on a terminal, otherwise a line now and then.
class ProgressLine {
 public:
  bool is_terminal() const { return is_terminal_; }
  // Returns whether the cursor is in the line.
  bool is_open() const { return open_; }

  // Shows "what: rows=N of rows_per_s=N", where unit is `rows`.
  void Show(const char* what, const char* unit, uint64_t count, const std::string& of) {
    const auto now = Clock::now();
    if (now - shown_ < (is_terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10))) {
      return;
    }
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const std::string text =
        "simurgh: " + std::string(what) + ": " + unit + "=" + std::to_string(count) + of + " " +
        unit + "_per_s=" + std::to_string(std::llround(static_cast<double>(count) / seconds));
    is_terminal_ ? Rewrite(text) : static_cast<void>(std::fprintf(stderr, "%s\n", text.c_str()));
  }
  void Show(const char* what, uint64_t rows, const std::string& of) {
    Show(what, "rows", rows, of);
  }
  // Replaces the line on a terminal. Leaves out text that does not fit, since a wrapped line cannot
  // be erased.
  void Rewrite(const std::string& text) {
    winsize size{};
    const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    const int columns = known ? size.ws_col : 80;
    std::fprintf(stderr, "\r%.*s\033[K", columns - 1, text.c_str());
    open_ = true;
  }
  // Erases the line. Call it before other output.
  void Erase() {
    if (std::exchange(open_, false)) std::fputs("\r\033[K", stderr);
  }
  // Erases the line and starts the clock of the next phase.
  void End() {
    Erase();
    begin_ = shown_ = Clock::now();
  }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;

  const bool is_terminal_ = isatty(STDERR_FILENO) == 1;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_ = begin_;
  bool open_ = false;
};

// Shows the growing log of an nn-worker, and warnings of loaders and servers, on stderr. On a
// terminal, the last line shows the progress: steps, samples per second, loss, AUC of training and
// the time that is left. Lines of the logs move up before it. Elsewhere lines of progress are shown
// every 10 s.
//
// Threads: one owner.
class LogView {
 public:
  // Arguments: paths of existing files.
  explicit LogView(const std::string& trainer, const std::vector<std::string>& others = {});
  ~LogView() { Erase(); }

  // Shows the lines that are complete.
  void Show();
  // Erases the line of progress until the next Show(). Call it before other output.
  void Erase() { line_.Erase(); }

 private:
  struct Log {
    FileDescriptor file;
    bool has_warnings_only = false;
    std::string incomplete = {};
  };

  void ShowLine(const Log& log, const std::string& line);

  std::vector<Log> logs_;
  ProgressLine line_;
  std::string progress_;  // The text of line_; empty: none yet.
  // When a line of progress was shown elsewhere than on a terminal.
  std::optional<std::chrono::steady_clock::time_point> shown_;
};

// Returns the last lines of a file, at most `lines` of them and 16 KiB. Empty if it cannot be read.
std::string LastLines(const std::string& path, size_t lines);

}  // namespace simurgh
