// Many peers at once: the limits hold, and others are served.

#include <algorithm>

#include <boost/asio/ip/tcp.hpp>
#include <catch2/catch.hpp>

#include "tests/unit/rpc/abuse.h"

namespace simurgh::rpc {
namespace {

using testing::Encode;
using testing::RawFrame;
using testing::RawPeer;

TEST_CASE("silent peers do not keep others out", "[abuse]") {
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
      // Some are silent, others send an incomplete HELLO.
      if (i % 2 == 0) SIMURGH_CO_RETURN_IF_ERROR(co_await peer->Send(Bytes(40)));
      crowd.push_back(*std::move(peer));
    }
    co_return absl::OkStatus();
  };
  REQUIRE(ends.loop.Run(gather()) == absl::OkStatus());
  // A known client and a new one.
  CHECK(RunWithin(ends.loop, 3'000, Echo(*ends.client)) == absl::OkStatus());
  const auto newcomer = ends.NewClient();
  CHECK(RunWithin(ends.loop, 3'000, Echo(*newcomer)) == absl::OkStatus());
  ends.loop.Run(UntilClosed(ends.observer, kCrowd - options.max_newcomers));
  CHECK(std::ranges::all_of(ends.observer.closes,
                            [](CloseReason reason) { return reason == CloseReason::kCrowd; }));
}

TEST_CASE("a connection without HELLO is closed", "[abuse]") {
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
  CHECK(ends.observer.closes == std::vector{CloseReason::kNoHello});
  CHECK(ends.EchoWorks());
}

// Connects from an address of this machine.
[[nodiscard]] awaitable<StatusOr<RawPeer>> DialFrom(asio::any_io_executor executor,
                                                    const Ends& ends, const char* host) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const Address server, ParseAddress(ends.server->address()));
  using asio::ip::tcp;
  const auto endpoint = [](const std::string& address, uint16_t port) {
    return tcp::endpoint(asio::ip::make_address(address), port);
  };
  Socket socket(executor, Socket::protocol_type(tcp::v4()));
  socket.bind(endpoint(host, 0));
  auto [error] = co_await socket.async_connect(endpoint(server.host, server.port), kNoThrow);
  if (error) co_return absl::UnavailableError(error.message());
  co_return RawPeer(std::move(socket));
}

TEST_CASE("a thousand connections are refused above the limits per host and in total", "[abuse]") {
  constexpr size_t kAttempts = 1'000;
  constexpr size_t kLimit = 40;
  ServerOptions options;
  CloseReason reason{};
  SECTION("of one host") {
    options.max_connections_per_host = kLimit;
    reason = CloseReason::kHostConnections;
  }
  SECTION("of all together") {
    options.max_connections = kLimit + 1;  // Including the honest client's.
    reason = CloseReason::kConnections;
  }
  Ends ends(EchoMethod().handle, options);
  REQUIRE(ends.EchoWorks());
  std::vector<RawPeer> admitted;
  const auto storm = [&]() -> awaitable<Status> {
    for (size_t i = 0; i < kAttempts; ++i) {
      SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer,
                                  co_await DialFrom(ends.loop.executor(), ends, "127.0.0.2"));
      SIMURGH_CO_RETURN_IF_ERROR(
          co_await peer.Send(Encode(testing::HelloFrame(TestHello("storm")))));
      SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame answer, co_await peer.Read());
      if (answer.header.kind == FrameKind::kHello) {
        SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(EchoRequest(1, {}))));
        SIMURGH_CO_RETURN_IF_ERROR((co_await peer.Read()).status());
        admitted.push_back(std::move(peer));
      } else {
        CHECK(answer.header.code == static_cast<uint16_t>(absl::StatusCode::kResourceExhausted));
      }
    }
    co_return absl::OkStatus();
  };
  int calls = 0;
  bool over = false;
  const auto work = [&]() -> awaitable<Status> {
    while (!over) {
      SIMURGH_CO_RETURN_IF_ERROR(co_await Echo(*ends.client));
      ++calls;
    }
    co_return absl::OkStatus();
  };
  const auto storm_and_end = [&]() -> awaitable<Status> {
    const Status status = co_await storm();
    over = true;
    co_return status;
  };
  CHECK(ends.loop.Run(Both(storm_and_end(), work())) == absl::OkStatus());
  CHECK(admitted.size() == kLimit);
  CHECK(ends.observer.closes == std::vector(kAttempts - kLimit, reason));
  CHECK(static_cast<size_t>(calls) >= kAttempts / 4);  // A share of the turns.
  CHECK(RunWithin(ends.loop, 60, Echo(*ends.client)) == absl::OkStatus());
  const auto newcomer = ends.NewClient();
  if (reason == CloseReason::kHostConnections) {
    CHECK(RunWithin(ends.loop, 3'000, Echo(*newcomer)) == absl::OkStatus());
  } else {
    CHECK_FALSE(ends.loop.Run(Echo(*newcomer, In(std::chrono::milliseconds(100)))).ok());
  }
  // A closed connection frees its share.
  admitted.clear();
  while (ends.observer.disconnects < static_cast<int>(kLimit)) ends.loop.context().run_one();
  const auto back = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer,
                                co_await DialFrom(ends.loop.executor(), ends, "127.0.0.2"));
    co_return co_await peer.ShakeHands(TestHello("storm"));
  };
  CHECK(ends.loop.Run(back()) == absl::OkStatus());
}

TEST_CASE("at the limits, a new client takes the place of the oldest peer without a call",
          "[abuse]") {
  constexpr size_t kLimit = 8;
  ServerOptions options;
  SECTION("of one host") { options.max_connections_per_host = kLimit; }
  SECTION("of all together") { options.max_connections = kLimit; }
  Ends ends(EchoMethod().handle, options);
  REQUIRE(ends.EchoWorks());
  std::vector<RawPeer> silent;
  for (size_t i = 1; i < kLimit; ++i) {
    StatusOr<RawPeer> peer = ends.loop.Run(Enter(ends));
    REQUIRE(peer.status() == absl::OkStatus());
    silent.push_back(*std::move(peer));
  }
  const auto still_answers = [&](RawPeer& peer) {
    const auto call = [&]() -> awaitable<Status> {
      SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(EchoRequest(1, {}))));
      co_return (co_await peer.Read()).status();
    };
    return ends.loop.Run(call()).ok();
  };
  // The first has made a call, so the second is the oldest.
  REQUIRE(still_answers(silent[0]));
  std::vector<std::unique_ptr<Client>> trainers;
  for (size_t closed = 1; closed + 1 < kLimit; ++closed) {
    trainers.push_back(ends.NewClient());
    CHECK(ends.loop.Run(Echo(*trainers.back())) == absl::OkStatus());
    CHECK(ends.observer.closes == std::vector(closed, CloseReason::kCrowd));
    CHECK_FALSE(still_answers(silent[closed]));
  }
  // All have made a call.
  const auto refused = ends.NewClient();
  const auto call = [&]() -> awaitable<Status> {
    const auto answer =
        co_await refused->Call(kEcho, {}, NoSegments(), In(std::chrono::seconds(1)));
    co_return answer.status();
  };
  CHECK(absl::IsUnavailable(ends.loop.Run(call())));
  CHECK(ends.EchoWorks());
}

TEST_CASE("at the limits, a new client replaces the peer idle longest, but no call under way",
          "[abuse]") {
  ServerOptions options{.max_connections = 3, .replace_after = std::chrono::milliseconds(0)};
  std::unique_ptr<Hang> hang;
  Ends ends([&](rpc::Request request) { return (*hang)(std::move(request)); }, options);
  hang = std::make_unique<Hang>(ends.loop.executor());
  // The oldest, whose call lasts.
  StatusOr<RawPeer> trainer = ends.loop.Run(Enter(ends));
  REQUIRE(trainer.status() == absl::OkStatus());
  const auto start = [&]() -> awaitable<Status> {
    RawFrame request = EchoRequest(1, {});
    request.header.method = kWork.number;
    SIMURGH_CO_RETURN_IF_ERROR(co_await trainer->Send(Encode(request)));
    const bool started = co_await hang->started.Wait(Soon());
    co_return started ? absl::OkStatus() : absl::DeadlineExceededError("no handler");
  };
  REQUIRE(ends.loop.Run(start()) == absl::OkStatus());
  const auto first = ends.NewClient();
  const auto second = ends.NewClient();
  REQUIRE(ends.loop.Run(Echo(*first)) == absl::OkStatus());
  REQUIRE(ends.loop.Run(Echo(*second)) == absl::OkStatus());
  REQUIRE(ends.loop.Run(Echo(*first)) == absl::OkStatus());
  const auto newcomer = ends.NewClient();
  REQUIRE(ends.loop.Run(Echo(*newcomer)) == absl::OkStatus());
  CHECK(ends.observer.closes == std::vector{CloseReason::kCrowd});
  CHECK(first->peer() != nullptr);
  CHECK(second->peer() == nullptr);
  CHECK(hang->cancelled == 0);
}

TEST_CASE("peers of another cluster replace no connection", "[abuse]") {
  Ends ends(EchoMethod().handle, {.max_connections_per_host = 2});
  REQUIRE(ends.EchoWorks());
  StatusOr<RawPeer> silent = ends.loop.Run(Enter(ends));
  REQUIRE(silent.status() == absl::OkStatus());
  Hello other = TestHello("other");
  other.cluster = "other";
  const auto stranger = ends.NewClient({}, other);
  const auto call = [&]() -> awaitable<Status> {
    co_return (co_await stranger->Call(kEcho, {}, NoSegments(), Soon())).status();
  };
  CHECK(absl::IsInvalidArgument(ends.loop.Run(call())));
  CHECK(ends.observer.closes == std::vector{CloseReason::kRefused});
}

}  // namespace
}  // namespace simurgh::rpc
