#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include <unistd.h>

namespace simurgh {

// Shows progress on stderr: one line that changes on a terminal, otherwise a line now and then.
class ProgressLine {
 public:
  void Show(const char* what, uint64_t rows, const std::string& of) {
    const auto now = Clock::now();
    if (now - shown_ < (is_terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10))) {
      return;
    }
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    std::fprintf(stderr, "%ssimurgh: %s: rows=%llu%s rows_per_s=%.0f%s", is_terminal_ ? "\r" : "",
                 what, static_cast<unsigned long long>(rows), of.c_str(),
                 static_cast<double>(rows) / seconds, is_terminal_ ? "\033[K" : "\n");
    open_ = is_terminal_;
  }
  // Ends the line and starts the clock of the next phase.
  void End() {
    if (std::exchange(open_, false)) std::fputs("\r\033[K", stderr);
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

}  // namespace simurgh
