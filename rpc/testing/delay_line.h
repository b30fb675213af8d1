#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

namespace simurgh::rpc::testing {

// One direction of a network link: packets leave in order, after serialization at the link's rate
// and a fixed delay.
//
// Threads: one.
template <typename Packet>
class DelayLine {
 public:
  using Clock = std::chrono::steady_clock;

  // Requires bytes_per_second > 0. max_bytes: capacity; further packets are lost.
  DelayLine(Clock::duration delay, double bytes_per_second, size_t max_bytes)
      : delay_(delay), bytes_per_second_(bytes_per_second), max_bytes_(max_bytes) {}

  bool HasRoom(size_t bytes) const { return bytes_ + bytes <= max_bytes_; }

  // Returns false if the packet is lost. Requires `now` not to decrease.
  bool Push(Clock::time_point now, size_t bytes, Packet packet) {
    if (!HasRoom(bytes)) return false;
    const std::chrono::duration<double> sending(static_cast<double>(bytes) / bytes_per_second_);
    free_ = std::max(free_, now) + std::chrono::duration_cast<Clock::duration>(sending);
    bytes_ += bytes;
    inside_.push_back({free_ + delay_, bytes, std::move(packet)});
    return true;
  }

  // The time when the next packet leaves, if any.
  std::optional<Clock::time_point> due() const {
    if (inside_.empty()) return std::nullopt;
    return inside_.front().due;
  }

  // Removes the next packet. Requires due().
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
  Clock::time_point free_;  // The end of serialization of all packets.
  size_t bytes_ = 0;
  std::deque<Inside> inside_;
};

}  // namespace simurgh::rpc::testing
