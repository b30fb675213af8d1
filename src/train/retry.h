#pragma once

#include <chrono>

#include "simurgh/base/status.h"

namespace simurgh {

// True for errors that a later attempt may not see.
bool IsWorthARetry(const Status& status);

// When a failing piece of work may be tried again: after pauses that double from 20 ms to 2 s.
//
// Threads: one owner.
class RetryClock {
 public:
  using Clock = std::chrono::steady_clock;

  // The work has failed. What is left of `deadline`, counted from the first failure in a row.
  std::chrono::milliseconds OnFailure(Clock::time_point now, std::chrono::milliseconds deadline);

  // The work has succeeded.
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
