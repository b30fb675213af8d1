#pragma once

#include <algorithm>
#include <chrono>

#include "rpc/async.h"
#include "simurgh/base/random.h"

namespace simurgh::rpc {

// Pauses between attempts to connect. They double up to a maximum and have random jitter, so that
// the clients of a restarted server do not all connect at once.
class Backoff {
 public:
  Backoff(Clock::duration min, Clock::duration max) : min_(min), max_(max), next_(min) {}

  // The next pause, multiplied by a random number from 0.5 to 1.
  Clock::duration Next(Random& random) {
    const double share = 0.5 + 0.5 * random.Uniform();
    const Clock::duration pause = next_;
    next_ = std::min(2 * next_, max_);
    return std::chrono::duration_cast<Clock::duration>(pause * share);
  }

  // The next pause is the minimum again.
  void Reset() { next_ = min_; }

 private:
  const Clock::duration min_;
  const Clock::duration max_;
  Clock::duration next_;
};

}  // namespace simurgh::rpc
