#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/random.h"
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

  // Returns whether, at all samples for `timeout`, the flow was expected, ended no round and moved
  // less than kMinBytes.
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
