#pragma once

#include <algorithm>
#include <chrono>

#include "rpc/async.h"
#include "simurgh/base/random.h"

namespace simurgh::rpc {

// How long to wait between attempts to connect: twice as long each time up to a maximum, and less
// by chance, so that the clients of a server that comes back do not come all at once.
class Backoff {
 public:
  Backoff(Clock::duration min, Clock::duration max) : min_(min), max_(max), next_(min) {}

  // Between a half and the whole of the pause that is due.
  Clock::duration Next(Random& random) {
    const double share = 0.5 + 0.5 * random.Uniform();
    const Clock::duration pause = next_;
    next_ = std::min(2 * next_, max_);
    return std::chrono::duration_cast<Clock::duration>(pause * share);
  }

  // The next pause is the shortest again.
  void Reset() { next_ = min_; }

 private:
  const Clock::duration min_;
  const Clock::duration max_;
  Clock::duration next_;
};

}  // namespace simurgh::rpc
