#pragma once

// Checks that an honest client is served while another peer misbehaves.

#include <optional>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {

// Runs `task` within at most `max` handlers of the event loop.
inline Status RunWithin(testing::Loop& loop, int max, awaitable<Status> task) {
  std::optional<Status> result;
  asio::co_spawn(loop.context(), std::move(task),
                 [&](const std::exception_ptr&, Status status) { result = std::move(status); });
  loop.context().restart();
  int steps = 0;
  for (; !result && steps < max; ++steps) loop.context().run_one();
  INFO(steps << " steps of at most " << max);
  REQUIRE(result.has_value());
  return *result;
}

[[nodiscard]] inline awaitable<Status> Echo(Client& client, Clock::time_point deadline = Soon()) {
  const auto answer = co_await client.Call(kEcho, Message(Text("x")), IntoVectors(), deadline);
  co_return answer.status();
}

// Waits for `count` closed connections; fails the test if they do not happen.
[[nodiscard]] inline awaitable<void> UntilClosed(const RecordingObserver& observer, size_t count) {
  const Clock::time_point deadline = Soon();
  while (observer.closes.size() < count && Clock::now() < deadline) {
    co_await asio::post(asio::use_awaitable);
  }
  CHECK(observer.closes.size() >= count);
}

}  // namespace simurgh::rpc
