#pragma once

#include <functional>
#include <utility>

#include "rpc/deadline_timer.h"

namespace simurgh::rpc {

// Calls a function when the deadline passes, unless destroyed before. Clock::time_point::max()
// means no deadline.
//
// Threads: that of the executor.
class Watchdog {
 public:
  Watchdog(const asio::any_io_executor& executor, Clock::time_point deadline,
           std::function<void()> on_expiry)
      : timer_(executor, [this, on_expiry = std::move(on_expiry)](Clock::time_point /*now*/) {
          expired_ = true;
          on_expiry();
          return Clock::time_point::max();
        }) {
    timer_.Note(deadline);
  }

  bool expired() const { return expired_; }

 private:
  bool expired_ = false;
  DeadlineTimer timer_;
};

}  // namespace simurgh::rpc
