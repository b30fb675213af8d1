#pragma once

#include <chrono>

#include "base/status.h"

namespace simurgh {

// Back-off: retries after pauses that double from 20 ms to 2 s.
//
// Threads: one owner.
class RetryClock {
 public:
  using Clock = std::chrono::steady_clock;

  // Counts a failure. Returns OK for a retry, which it logs, or the error that ends the run: one
  // that is not transient, or one that has lasted for `deadline` since the first failure after a
  // success. is_endless: a new deadline begins instead.
  Status OnFailure(const Status& error, Clock::time_point now, std::chrono::milliseconds deadline,
                   bool is_endless = false);

  // Counts a success.
  void Reset() { failures_ = 0; }

  bool due(Clock::time_point now) const { return failures_ == 0 || now >= next_attempt_; }

  // Requires a failure.
  Clock::time_point next_attempt() const { return next_attempt_; }

 private:
  int failures_ = 0;
  Clock::time_point first_failure_;
  Clock::time_point next_attempt_;
};

}  // namespace simurgh
