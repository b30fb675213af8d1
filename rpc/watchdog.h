#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "rpc/async.h"

namespace simurgh::rpc {

// Calls a function when the deadline passes, unless destroyed before. Clock::time_point::max()
// means no deadline.
//
// Threads: that of the executor.
class Watchdog {
 public:
  Watchdog(const asio::any_io_executor& executor, Clock::time_point deadline,
           std::function<void()> on_expiry) {
    if (deadline == Clock::time_point::max()) return;
    state_ = std::make_shared<State>(executor, deadline, std::move(on_expiry));
    state_->timer.async_wait([state = state_](const boost::system::error_code& error) {
      if (error || state->dismissed) return;
      state->expired = true;
      state->on_expiry();
    });
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    if (state_ == nullptr) return;
    state_->dismissed = true;
    state_->timer.cancel();
  }

  bool expired() const { return state_ != nullptr && state_->expired; }

 private:
  struct State {
    State(const asio::any_io_executor& executor, Clock::time_point deadline,
          std::function<void()> function)
        : timer(executor, deadline), on_expiry(std::move(function)) {}
    asio::steady_timer timer;
    std::function<void()> on_expiry;
    bool dismissed = false;
    bool expired = false;
  };

  std::shared_ptr<State> state_;
};

}  // namespace simurgh::rpc
