// Peers that do harm: each is cut off or slowed down with a counted reason, and meanwhile the calls
// of an honest client succeed, after a bounded number of turns of the event loop.

#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::RawPeer;

// Handlers of the loop that run while `task` does; fails the test when there are more than `most`.
Status RunWithin(testing::Loop& loop, int most, awaitable<Status> task) {
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

[[nodiscard]] awaitable<Status> Echo(Client& client) {
  const auto answer = co_await client.Call(kEcho, Message(Text("x")), IntoVectors(), Soon());
  co_return answer.status();
}

// Waits until the observer has seen so many cuts.
[[nodiscard]] awaitable<void> UntilCut(const RecordingObserver& observer, size_t count) {
  while (observer.cuts.size() < count) co_await asio::post(asio::use_awaitable);
}

TEST_CASE("a crowd of silent peers keeps nobody out", "[abuse]") {
  ServerOptions options;
  options.max_newcomers = 16;
  Ends ends(EchoMethod().handle, options);
  REQUIRE(ends.EchoWorks());
  constexpr size_t kCrowd = 400;
  std::vector<RawPeer> crowd;
  const auto gather = [&]() -> awaitable<Status> {
    for (size_t i = 0; i < kCrowd; ++i) {
      StatusOr<RawPeer> peer = co_await RawPeer::Dial(ends.server->address());
      SIMURGH_CO_RETURN_IF_ERROR(peer.status());
      // Some are silent, others begin a HELLO and do not end it.
      if (i % 2 == 0) SIMURGH_CO_RETURN_IF_ERROR(co_await peer->Send(Bytes(40)));
      crowd.push_back(*std::move(peer));
    }
    co_return absl::OkStatus();
  };
  REQUIRE(ends.loop.Run(gather()) == absl::OkStatus());
  // Both who is known and who comes now.
  CHECK(RunWithin(ends.loop, 3'000, Echo(*ends.client)) == absl::OkStatus());
  const auto newcomer = ends.NewClient();
  CHECK(RunWithin(ends.loop, 3'000, Echo(*newcomer)) == absl::OkStatus());
  ends.loop.Run(UntilCut(ends.observer, kCrowd - options.max_newcomers));
  CHECK(std::ranges::all_of(ends.observer.cuts,
                            [](CutReason reason) { return reason == CutReason::kCrowd; }));
}

TEST_CASE("a peer that never introduces itself is cut off", "[abuse]") {
  ServerOptions options;
  options.hello_timeout = std::chrono::milliseconds(20);
  Ends ends(EchoMethod().handle, options);
  const auto visit = [&]() -> awaitable<Status> {
    StatusOr<RawPeer> peer = co_await RawPeer::Dial(ends.server->address());
    SIMURGH_CO_RETURN_IF_ERROR(peer.status());
    const Bytes hello = Encode(testing::HelloFrame(TestHello("client")));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer->Send(Bytes(hello.begin(), hello.end() - 1)));
    co_await peer->ReadToEnd();
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(visit()) == absl::OkStatus());
  CHECK(ends.observer.cuts == std::vector{CutReason::kNoHello});
  CHECK(ends.EchoWorks());
}

}  // namespace
}  // namespace simurgh::rpc
