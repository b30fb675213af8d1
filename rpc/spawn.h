#pragma once

#include <utility>

#include "rpc/async.h"

namespace simurgh::rpc {
namespace internal {

// A completion handler with a cancellation slot and nothing else.
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

// Starts a coroutine on an executor. `signal` cancels it and must outlive it; `end` is called with
// its result, as by asio::co_spawn.
//
// asio::bind_cancellation_slot would do, but then an emission from outside the executor is posted
// with a bare pointer to the signal, which may be gone when it runs. Here it takes effect at once.
// Threads: one, that of the executor.
template <typename T, typename End>
void SpawnCancellable(const asio::any_io_executor& executor, awaitable<T> task,
                      asio::cancellation_signal& signal, End end) {
  asio::co_spawn(executor, std::move(task),
                 internal::CancellableEnd<End>{signal.slot(), std::move(end)});
}

}  // namespace simurgh::rpc
