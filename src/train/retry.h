#pragma once

#include <chrono>

#include "simurgh/base/status.h"

namespace simurgh {

// Whether the error may be transient.
bool IsWorthARetry(const Status& status);

// Back-off: retries after pauses that double from 20 ms to 2 s.
//
// Threads: one owner.
class RetryClock {
 public:
  using Clock = std::chrono::steady_clock;

  // Counts a failure. Returns the rest of `deadline`, counted from the first failure since a
  // success.
  std::chrono::milliseconds OnFailure(Clock::time_point now, std::chrono::milliseconds deadline);

  // Counts a success.
  void Reset();

  bool due(Clock::time_point now) const { return failures_ == 0 || now >= next_attempt_; }

  // Requires a failure.
  Clock::time_point next_attempt() const { return next_attempt_; }

 private:
  int failures_ = 0;
  Clock::time_point first_failure_;
  Clock::time_point next_attempt_;
};

}  // namespace simurgh
