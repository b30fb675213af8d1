#pragma once

// Runs coroutines in the thread of the test.

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "rpc/async.h"
#include "simurgh/base/check.h"

namespace simurgh::rpc::testing {

class Loop {
 public:
  asio::any_io_executor executor() { return context_.get_executor(); }
  asio::io_context& context() { return context_; }

  // Runs the loop until `task` has ended. Returns its result or rethrows its exception.
  template <typename T>
  T Run(awaitable<T> task) {
    std::exception_ptr thrown;
    bool ended = false;
    std::optional<std::conditional_t<std::is_void_v<T>, bool, T>> result;
    const auto end = [&](const std::exception_ptr& error, auto... value) {
      thrown = error;
      ((result = std::move(value)), ...);
      ended = true;
    };
    asio::co_spawn(context_, std::move(task), end);
    context_.restart();
    while (!ended)
      SIMURGH_CHECK(context_.run_one() != 0)
          << "the event loop has no work, and the task has not ended";
    if (thrown) std::rethrow_exception(thrown);
    if constexpr (!std::is_void_v<T>) return *std::move(result);
  }

 private:
  asio::io_context context_;
};

}  // namespace simurgh::rpc::testing
