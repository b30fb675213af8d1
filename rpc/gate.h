#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "rpc/waiter.h"

namespace simurgh::rpc {

// Counts running tasks and waits for their end.
//
// Threads: that of the executor. Lifetime: outlives the waits; passes may outlive the gate.
class Gate {
 private:
  struct State {
    explicit State(asio::any_io_executor executor) : changed(std::move(executor)) {}
    size_t running = 0;
    WaitList changed;
  };

 public:
  // One running task. Move-only; empty by default.
  class Pass {
   public:
    Pass() = default;
    Pass(Pass&& other) noexcept : state_(std::move(other.state_)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(state_, other.state_);
      return *this;
    }
    ~Pass() {
      if (state_ == nullptr) return;
      --state_->running;
      state_->changed.NotifyAll();
    }

   private:
    friend class Gate;
    explicit Pass(std::shared_ptr<State> state) : state_(std::move(state)) { ++state_->running; }
    std::shared_ptr<State> state_;
  };

  explicit Gate(asio::any_io_executor executor)
      : state_(std::make_shared<State>(std::move(executor))) {}

  Pass Enter() { return Pass(state_); }
  size_t running() const { return state_->running; }

  // Waits until at most `limit` tasks run. Returns false when the deadline passed or the caller was
  // cancelled first.
  [[nodiscard]] awaitable<bool> WaitUntilAtMost(size_t limit, Clock::time_point deadline) {
    const std::shared_ptr<State> state = state_;
    while (state->running > limit) {
      const bool notified = co_await state->changed.Wait(deadline);
      if (!notified) break;
    }
    co_return state->running <= limit;
  }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace simurgh::rpc
