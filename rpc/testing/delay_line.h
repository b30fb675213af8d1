#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

namespace simurgh::rpc::testing {

// One direction of a wire: what enters leaves in the same order, after it has been sent at the
// wire's rate, one thing after the other, and has been under way for its delay.
//
// Threads: one.
template <typename Packet>
class DelayLine {
 public:
  using Clock = std::chrono::steady_clock;

  // bytes_per_second: > 0. max_bytes: what may be inside; what comes then is lost.
  DelayLine(Clock::duration delay, double bytes_per_second, size_t max_bytes)
      : delay_(delay), bytes_per_second_(bytes_per_second), max_bytes_(max_bytes) {}

  bool HasRoom(size_t bytes) const { return bytes_ + bytes <= max_bytes_; }

  // False: lost. now: not before that of an earlier call.
  bool Push(Clock::time_point now, size_t bytes, Packet packet) {
    if (!HasRoom(bytes)) return false;
    const std::chrono::duration<double> sending(static_cast<double>(bytes) / bytes_per_second_);
    free_ = std::max(free_, now) + std::chrono::duration_cast<Clock::duration>(sending);
    bytes_ += bytes;
    inside_.push_back({free_ + delay_, bytes, std::move(packet)});
    return true;
  }

  // When the next one leaves; nothing if there is none.
  std::optional<Clock::time_point> due() const {
    if (inside_.empty()) return std::nullopt;
    return inside_.front().due;
  }

  // Takes out the next one. Requires that there is one.
  Packet Pop() {
    Packet packet = std::move(inside_.front().packet);
    bytes_ -= inside_.front().bytes;
    inside_.pop_front();
    return packet;
  }

 private:
  struct Inside {
    Clock::time_point due;
    size_t bytes;
    Packet packet;
  };

  const Clock::duration delay_;
  const double bytes_per_second_;
  const size_t max_bytes_;
  Clock::time_point free_;  // When all that has entered has been sent.
  size_t bytes_ = 0;
  std::deque<Inside> inside_;
};

}  // namespace simurgh::rpc::testing
