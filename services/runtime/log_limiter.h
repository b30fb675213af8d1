#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace simurgh {

// Keeps what others cause again and again from filling the log: a few lines, then one an interval.
//
// Threads: one.
class LogLimiter {
 public:
  using Clock = std::chrono::steady_clock;

  // lines: so many may come at once after a quiet time, one more for every interval of it.
  LogLimiter(uint32_t lines, Clock::duration interval)
      : lines_(lines), interval_(interval), free_(lines) {}

  // Nothing when this line is left out, else how many have been since the last one that was not.
  std::optional<uint64_t> Admit(Clock::time_point now) {
    const auto earned = (now - earned_until_) / interval_;
    if (earned > 0) {
      free_ = static_cast<uint32_t>(std::min<int64_t>(free_ + earned, lines_));
      earned_until_ += earned * interval_;
    }
    if (free_ == lines_) earned_until_ = now;
    if (free_ == 0) {
      ++left_out_;
      return std::nullopt;
    }
    --free_;
    return std::exchange(left_out_, 0);
  }

 private:
  const uint32_t lines_;
  const Clock::duration interval_;
  uint32_t free_;
  uint64_t left_out_ = 0;
  Clock::time_point earned_until_{};
};

}  // namespace simurgh
