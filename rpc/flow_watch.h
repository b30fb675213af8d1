#pragma once

#include <algorithm>
#include <cstdint>

#include "rpc/async.h"

namespace simurgh::rpc {

// The state of one direction of a connection.
struct Flow {
  bool expected = false;  // The peer has to act: send the rest of a message, or read.
  // Completions: frames read, times that no chunked message was incomplete or all was written.
  uint64_t rounds = 0;
  uint64_t bytes = 0;  // Moved so far.
};

// Detects a stalled flow by sampling, so that progress between samples costs nothing.
class FlowWatch {
 public:
  // A flow that moves less within the timeout is stalled, too.
  static constexpr uint64_t kMinBytes = 131'072;

  // Whether, at all samples for `timeout`, the flow was expected, ended no round and moved less
  // than kMinBytes.
  bool IsStalled(const Flow& flow, Clock::time_point now, Clock::duration timeout) {
    const bool progress = !flow.expected || flow.rounds != mark_.rounds ||
                          flow.bytes - mark_.bytes >= kMinBytes || !mark_.expected;
    if (progress) {
      mark_ = flow;
      since_ = now;
    }
    return now - since_ >= timeout;
  }

  // The time of the next sample. A stall is detected at most a quarter of the timeout late.
  static Clock::time_point NextSample(Clock::time_point now, Clock::duration timeout) {
    constexpr Clock::duration kLongest = std::chrono::minutes(1);
    return now + std::min(timeout / 4, kLongest);
  }

 private:
  Flow mark_;
  Clock::time_point since_{};
};

}  // namespace simurgh::rpc
