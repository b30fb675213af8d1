#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "rpc/async.h"

namespace simurgh::rpc {

// One timer for any number of deadlines. It does not store them, but calls the owner's function
// when the earliest may have passed. A deadline that is met in time costs nothing: the timer stays
// set.
//
// Threads: that of the executor.
class DeadlineTimer {
 public:
  // Handles the deadlines that have passed; returns the earliest other one, or
  // Clock::time_point::max().
  using Look = std::function<Clock::time_point(Clock::time_point now)>;

  DeadlineTimer(const asio::any_io_executor& executor, Look look)
      : state_(std::make_shared<State>(asio::steady_timer(executor), std::move(look))) {}
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;
  ~DeadlineTimer() {
    state_->ended = true;
    state_->timer.cancel();
  }

  void Note(Clock::time_point deadline) {
    if (deadline < state_->set_to) Set(state_, deadline);
  }

 private:
  struct State {
    asio::steady_timer timer;
    const Look look;
    Clock::time_point set_to = Clock::time_point::max();
    bool ended = false;
  };

  static void Set(const std::shared_ptr<State>& state, Clock::time_point time) {
    state->set_to = time;
    state->timer.expires_at(time);
    state->timer.async_wait([state](const boost::system::error_code& error) {
      if (error || state->ended) return;
      state->set_to = Clock::time_point::max();
      const Clock::time_point next = state->look(Clock::now());
      if (!state->ended && next < state->set_to) Set(state, next);
    });
  }

  std::shared_ptr<State> state_;
};

}  // namespace simurgh::rpc
