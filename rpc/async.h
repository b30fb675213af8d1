#pragma once

// Files that wait include Boost.Asio through this header.

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/status.h"

namespace simurgh::rpc {

namespace asio = boost::asio;
using asio::awaitable;
using Clock = std::chrono::steady_clock;

// co_await operation(kNoThrow) gives the error code as a value instead of throwing it.
inline constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

namespace internal {

// Runs `work`, which must not throw, on `executor`; then resumes the caller on its own executor.
[[nodiscard]] awaitable<void> ResumeAfter(asio::any_io_executor executor,
                                          absl::FunctionRef<void()> work);

}  // namespace internal

// Runs `function` on `executor` and resumes the caller on its own executor with the result or the
// exception of the function. A cancelled caller resumes after the function has returned; a caller
// that was cancelled before does not start the function.
//
// Threads: `executor` may belong to other threads, which call and destroy the function.
// Lifetime: the caller's context runs until the function has returned, and outlives the threads of
// the executor.
template <typename Function>
[[nodiscard]] auto RunOn(asio::any_io_executor executor, Function function)
    -> awaitable<std::invoke_result_t<Function>> {
  using Result = std::invoke_result_t<Function>;
  constexpr bool kVoid = std::is_void_v<Result>;
  std::exception_ptr thrown;
  std::optional<std::conditional_t<kVoid, bool, Result>> result;
  const auto work = [&] {
    try {
      Function once = std::move(function);
      if constexpr (kVoid) {
        std::move(once)();
      } else {
        result.emplace(std::move(once)());
      }
    } catch (...) {
      thrown = std::current_exception();
    }
  };
  co_await internal::ResumeAfter(std::move(executor), work);
  if (thrown) std::rethrow_exception(thrown);
  if constexpr (!kVoid) co_return *std::move(result);
}

// Runs all tasks concurrently on the caller's executor and waits for all. Returns the first error
// in the order of the tasks. Cancelling the caller cancels the tasks. A task that throws counts as
// INTERNAL, one that ends by cancellation as CANCELLED.
[[nodiscard]] awaitable<Status> WhenAll(std::vector<awaitable<Status>> tasks);

// Converts a coroutine's exception: CANCELLED for the one that Asio throws in a cancelled
// coroutine, else INTERNAL.
Status StatusOfException(const std::exception_ptr& thrown);

}  // namespace simurgh::rpc

// The co_return forms of SIMURGH_RETURN_IF_ERROR and SIMURGH_ASSIGN_OR_RETURN.
#define SIMURGH_CO_RETURN_IF_ERROR(expression)                                  \
  do {                                                                          \
    if (::absl::Status simurgh_status_ = (expression); !simurgh_status_.ok()) { \
      co_return simurgh_status_;                                                \
    }                                                                           \
  } while (false)

#define SIMURGH_CO_ASSIGN_OR_RETURN(declaration, expression) \
  SIMURGH_CO_ASSIGN_OR_RETURN_(SIMURGH_CONCAT_(simurgh_result_, __LINE__), declaration, expression)
#define SIMURGH_CO_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                         \
  if (!result.ok()) co_return std::move(result).status();             \
  declaration = std::move(result).value()

namespace simurgh::rpc {

// Marks a wait that is expected to be longer than the cost of waking: while a LongWait exists,
// RunEventLoop() of its thread does not spin.
class LongWait {
 public:
  LongWait() { ++living_; }
  ~LongWait() { --living_; }
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;

  static bool any() { return living_ != 0; }

 private:
  static inline thread_local int living_ = 0;
};

// Runs a context in this thread until it is stopped or has no work, like run(), but polls for up to
// `max_spin` after the last event before it sleeps. Spinning saves the wake-up after a short wait
// (5 us at each end, 40 us on a virtual machine that loses its core) and costs CPU time. Each wait
// that was too long halves the share of waits that spin, down to one in 64. Spinning yields the
// core to other threads. 0 never spins.
//
// Requires that no other thread runs the context.
void RunEventLoop(asio::io_context& context, std::chrono::microseconds max_spin);

namespace internal {

// A completion handler with a cancellation slot.
template <typename End>
struct CancellableEnd {
  using cancellation_slot_type = asio::cancellation_slot;
  cancellation_slot_type get_cancellation_slot() const noexcept { return slot; }

  template <typename... Result>
  void operator()(Result&&... result) {
    end(std::forward<Result>(result)...);
  }

  cancellation_slot_type slot;
  End end;
};

}  // namespace internal

// Starts a coroutine on an executor, as asio::co_spawn; `end` receives its result. `signal` cancels
// it and must outlive it.
//
// asio::bind_cancellation_slot posts an emission from outside the executor with a raw pointer to
// the signal, which may be destroyed before. Here the emission takes effect at once. Threads: that
// of the executor.
template <typename T, typename End>
void SpawnCancellable(const asio::any_io_executor& executor, awaitable<T> task,
                      asio::cancellation_signal& signal, End end) {
  asio::co_spawn(executor, std::move(task),
                 internal::CancellableEnd<End>{signal.slot(), std::move(end)});
}

// Lets one coroutine wait for another of the same thread, without a timer or the event loop.
//
// Threads: one. Lifetime: outlives the wait.
class Suspension {
 public:
  Suspension() = default;
  Suspension(const Suspension&) = delete;
  Suspension& operator=(const Suspension&) = delete;

  // Returns whether the wait is over: Wait() must then not be called.
  bool over() const { return over_; }

  // Returns when resumed, or when the caller is cancelled. Requires !over() and a caller that has
  // not been cancelled.
  [[nodiscard]] awaitable<void> Wait() {
    return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [this](Handler handler) {
          asio::cancellation_slot slot = asio::get_associated_cancellation_slot(handler);
          if (slot.is_connected()) {
            // ResumeLater(), because the slot must not be cleared while it is being called.
            slot.assign([this](asio::cancellation_type /*type*/) { ResumeLater(); });
          }
          handler_.emplace(std::move(handler));
        },
        asio::use_awaitable);
  }

  // Ends the wait. The waiting coroutine runs inside this call until its next wait and may destroy
  // `this`.
  void Resume() {
    over_ = true;
    if (std::optional<Handler> handler = Take()) (*std::move(handler))();
  }

  // The same, but the coroutine runs from the event loop.
  void ResumeLater() {
    over_ = true;
    std::optional<Handler> handler = Take();
    if (!handler) return;
    const asio::any_io_executor executor = asio::get_associated_executor(*handler);
    asio::post(executor, [resume = *std::move(handler)]() mutable { std::move(resume)(); });
  }

  // Requires that no coroutine waits.
  void Reset() { over_ = false; }

  // Destroys the waiting coroutine, if any.
  void Abandon() {
    over_ = true;
    (void)Take();
  }

 private:
  using Handler = asio::async_result<asio::use_awaitable_t<>, void()>::handler_type;

  std::optional<Handler> Take() { return std::exchange(handler_, std::nullopt); }

  std::optional<Handler> handler_;
  bool over_ = false;
};

// Waits between coroutines of one thread, with deadlines.

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
