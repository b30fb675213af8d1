#pragma once

// Runs coroutines in the thread of the test.

#include <chrono>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "rpc/async.h"

namespace simurgh::rpc::testing {

class Loop {
 public:
  asio::any_io_executor executor() { return context_.get_executor(); }
  asio::io_context& context() { return context_; }

  // Runs the loop until `task` has ended. Returns its result or rethrows its exception. A task that
  // waits for what never comes ends the program, so that its test is named.
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
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!ended) {
      SIMURGH_CHECK(context_.run_one_until(deadline) != 0)
          << "the task has not ended, and the event loop has no work or has run for "
          << kPatience.count() << " minutes";
    }
    if (thrown) std::rethrow_exception(thrown);
    if constexpr (!std::is_void_v<T>) return *std::move(result);
  }

 private:
  static constexpr std::chrono::minutes kPatience{4};

  asio::io_context context_;
};

}  // namespace simurgh::rpc::testing
