#pragma once

// The one door to Boost.Asio: every file that waits includes this header.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh::rpc {

namespace asio = boost::asio;
using asio::awaitable;
using Clock = std::chrono::steady_clock;

// Runs `function` on `executor` and resumes the caller, with the result, where it was.
template <typename Function>
[[nodiscard]] auto RunOn(asio::any_io_executor executor, Function function)
    -> awaitable<std::invoke_result_t<Function>> {
  using Result = std::invoke_result_t<Function>;
  auto body = [](Function run) -> awaitable<Result> { co_return run(); };
  co_return co_await asio::co_spawn(executor, body(std::move(function)), asio::use_awaitable);
}

// Runs all tasks at once on the caller's executor; the first error in the order of the tasks, else ok. Waits for all of
// them, whatever their results.
[[nodiscard]] awaitable<Status> WhenAll(std::vector<awaitable<Status>> tasks);

}  // namespace simurgh::rpc

// The co_return forms of SIMURGH_RETURN_IF_ERROR and SIMURGH_ASSIGN_OR_RETURN.
#define SIMURGH_CO_RETURN_IF_ERROR(expression)                      \
  do {                                                              \
    if (::absl::Status simurgh_status_ = (expression);              \
        !simurgh_status_.ok()) {                                    \
      co_return simurgh_status_;                                    \
    }                                                               \
  } while (false)

#define SIMURGH_CO_ASSIGN_OR_RETURN(declaration, expression) \
  SIMURGH_CO_ASSIGN_OR_RETURN_(SIMURGH_CONCAT_(simurgh_result_, __LINE__), declaration, expression)
#define SIMURGH_CO_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                         \
  if (!result.ok()) co_return std::move(result).status();             \
  declaration = std::move(result).value()
