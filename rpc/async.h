#pragma once

// Files that wait include Boost.Asio through this header.

#include <chrono>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
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

#include "simurgh/base/status.h"

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
