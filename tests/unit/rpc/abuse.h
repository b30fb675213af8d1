#pragma once

// How tests see that an honest client is served while another peer does harm.

#include <optional>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {

// Handlers of the loop that run while `task` does; fails the test when there are more than `most`.
inline Status RunWithin(testing::Loop& loop, int most, awaitable<Status> task) {
  std::optional<Status> result;
  asio::co_spawn(loop.context(), std::move(task),
                 [&](const std::exception_ptr&, Status status) { result = std::move(status); });
  loop.context().restart();
  int steps = 0;
  for (; !result && steps < most; ++steps) loop.context().run_one();
  INFO(steps << " steps of at most " << most);
  REQUIRE(result.has_value());
  return *result;
}

[[nodiscard]] inline awaitable<Status> Echo(Client& client) {
  const auto answer = co_await client.Call(kEcho, Message(Text("x")), IntoVectors(), Soon());
  co_return answer.status();
}

// Waits until the observer has seen so many cuts; fails the test when they do not come.
[[nodiscard]] inline awaitable<void> UntilCut(const RecordingObserver& observer, size_t count) {
  const Clock::time_point deadline = Soon();
  while (observer.closes.size() < count && Clock::now() < deadline) {
    co_await asio::post(asio::use_awaitable);
  }
  CHECK(observer.closes.size() >= count);
}

}  // namespace simurgh::rpc
