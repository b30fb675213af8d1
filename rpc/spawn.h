#pragma once

#include <utility>

#include "rpc/async.h"

namespace simurgh::rpc {
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

}  // namespace simurgh::rpc
