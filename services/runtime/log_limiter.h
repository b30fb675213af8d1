#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace simurgh {

// Limits repeated log lines: a burst, then one per interval.
//
// Threads: one.
class LogLimiter {
 public:
  using Clock = std::chrono::steady_clock;

  // lines: size of the burst, which a quiet time restores at one line per interval.
  LogLimiter(uint32_t lines, Clock::duration interval)
      : lines_(lines), interval_(interval), free_(lines) {}

  // Returns the number of lines suppressed since the last admitted one; nothing if this line is
  // suppressed, too.
  std::optional<uint64_t> Admit(Clock::time_point now) {
    const auto earned = (now - earned_until_) / interval_;
    if (earned > 0) {
      free_ = static_cast<uint32_t>(std::min<int64_t>(free_ + earned, lines_));
      earned_until_ += earned * interval_;
    }
    if (free_ == lines_) earned_until_ = now;
    if (free_ == 0) {
      ++suppressed_;
      return std::nullopt;
    }
    --free_;
    return std::exchange(suppressed_, 0);
  }

 private:
  const uint32_t lines_;
  const Clock::duration interval_;
  uint32_t free_;
  uint64_t suppressed_ = 0;
  Clock::time_point earned_until_{};
};

}  // namespace simurgh
