#pragma once

// Waits between coroutines of one thread, with deadlines.

#include <utility>
#include <vector>

#include "rpc/async.h"

namespace simurgh::rpc {

// One wait of one coroutine.
class Waiter {
 public:
  Waiter(const asio::any_io_executor& executor, Clock::time_point deadline)
      : timer_(executor, deadline) {}

  // Ends the wait, also a later one.
  void Wake() {
    woken_ = true;
    timer_.cancel();
  }

  // Returns false when the deadline passed or the caller was cancelled first.
  [[nodiscard]] awaitable<bool> Wait() {
    if (!woken_) {
      const auto state = co_await asio::this_coro::cancellation_state;
      if (state.cancelled() == asio::cancellation_type::none) co_await timer_.async_wait(kNoThrow);
    }
    co_return woken_;
  }

  // Waits for Wake() or the deadline and ignores cancellation.
  [[nodiscard]] awaitable<void> WaitRegardless() {
    if (woken_) co_return;
    co_await timer_.async_wait(asio::bind_cancellation_slot(asio::cancellation_slot(), kNoThrow));
  }

 private:
  asio::steady_timer timer_;
  bool woken_ = false;
};

// Any number of coroutines that wait for the same event. Lifetime: outlives the waits.
class WaitList {
 public:
  explicit WaitList(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;

  // Returns false when the deadline passed or the caller was cancelled before NotifyAll().
  [[nodiscard]] awaitable<bool> Wait(Clock::time_point deadline) {
    Waiter waiter(executor_, deadline);
    const Entry entry(*this, waiter);
    co_return co_await waiter.Wait();
  }

  void NotifyAll() {
    if (waiters_.empty()) return;
    for (Waiter* waiter : std::exchange(waiters_, {})) waiter->Wake();
  }

  bool empty() const { return waiters_.empty(); }

 private:
  struct Entry {
    Entry(WaitList& of, Waiter& of_one) : list(of), waiter(of_one) {
      list.waiters_.push_back(&waiter);
    }
    ~Entry() { std::erase(list.waiters_, &waiter); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    WaitList& list;
    Waiter& waiter;
  };

  asio::any_io_executor executor_;
  std::vector<Waiter*> waiters_;
};

}  // namespace simurgh::rpc
