#pragma once

#include <algorithm>
#include <cstdint>

#include "rpc/async.h"

namespace simurgh::rpc {

// One direction of a connection, as it is at one moment.
struct Flow {
  bool expected = false;  // It is the peer's turn: to send more of a frame, or to read what waits.
  uint64_t rounds = 0;    // How often that has been over: frames read, times no message in chunks
                          // was under way any more, or times all was written.
  uint64_t bytes = 0;     // Moved so far.
};

// Whether a flow that should go on does not. Looked at from time to time: what happens in between
// costs nothing.
class FlowWatch {
 public:
  // A peer that trickles stands still, too.
  static constexpr uint64_t kMinBytes = 131'072;

  // Whether, as far as one has looked, the flow has been expected to go on for `timeout` and has
  // neither ended a round nor moved kMinBytes since.
  bool StandsStill(const Flow& flow, Clock::time_point now, Clock::duration timeout) {
    const bool goes_on = !flow.expected || flow.rounds != mark_.rounds ||
                         flow.bytes - mark_.bytes >= kMinBytes || !mark_.expected;
    if (goes_on) {
      mark_ = flow;
      since_ = now;
    }
    return now - since_ >= timeout;
  }

  // When to look again: often enough to be late by a quarter of the timeout at most.
  static Clock::time_point NextLook(Clock::time_point now, Clock::duration timeout) {
    constexpr Clock::duration kLongest = std::chrono::minutes(1);
    return now + std::min(timeout / 4, kLongest);
  }

 private:
  Flow mark_;
  Clock::time_point since_{};
};

}  // namespace simurgh::rpc
