// Times have lower bounds only: a slow machine is late, never early.

#include <utility>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>

#include "tests/support/rpc/proxy.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using testing::DelayingProxy;

constexpr double kFast = 1e12;  // Bytes a second.

// Both ends of a connection through a proxy, without frames.
struct Wire {
  Wire(Clock::duration delay, double bytes_per_second)
      : listener(*Listener::Open(loop.executor(), *ParseAddress("127.0.0.1:0"))),
        proxy(loop.executor(), delay, bytes_per_second),
        client(loop.executor()),
        server(loop.executor()) {
    REQUIRE(proxy.Listen("127.0.0.1:0") == absl::OkStatus());
    proxy.SetTarget(listener->address());
    REQUIRE(loop.Run(Both(Call(), Answer())) == absl::OkStatus());
  }

  [[nodiscard]] awaitable<Status> Call() {
    SIMURGH_CO_ASSIGN_OR_RETURN(client, co_await Connect(*ParseAddress(proxy.address()), Soon()));
    co_return absl::OkStatus();
  }
  [[nodiscard]] awaitable<Status> Answer() {
    SIMURGH_CO_ASSIGN_OR_RETURN(server, co_await listener->Accept());
    co_return absl::OkStatus();
  }

  // Writes at one end and reads as many bytes at the other.
  Bytes Carry(Socket& from, Socket& to, const Bytes& bytes) {
    Bytes received(bytes.size());
    const auto write = [&]() -> awaitable<Status> {
      auto [error, count] = co_await asio::async_write(from, asio::buffer(bytes), kNoThrow);
      co_return error ? absl::UnavailableError(error.message()) : absl::OkStatus();
    };
    const auto read = [&]() -> awaitable<Status> {
      auto [error, count] = co_await asio::async_read(to, asio::buffer(received), kNoThrow);
      co_return error ? absl::UnavailableError(error.message()) : absl::OkStatus();
    };
    REQUIRE(loop.Run(Both(write(), read())) == absl::OkStatus());
    return received;
  }

  // The bytes until the direction ends, and the error.
  std::pair<Bytes, boost::system::error_code> Rest(Socket& at) {
    const auto read = [&]() -> awaitable<std::pair<Bytes, boost::system::error_code>> {
      Bytes destination(1'000'000);
      auto [error, count] = co_await asio::async_read(at, asio::buffer(destination), kNoThrow);
      destination.resize(count);
      co_return std::pair(std::move(destination), error);
    };
    return loop.Run(read());
  }

  testing::Loop loop;
  std::unique_ptr<Listener> listener;
  DelayingProxy proxy;
  Socket client, server;
};

TEST_CASE("a call through a delaying proxy takes two delays") {
  constexpr milliseconds kDelay(30);
  Ends ends;
  DelayingProxy proxy(ends.loop.executor(), kDelay, kFast);
  REQUIRE(proxy.Listen("127.0.0.1:0") == absl::OkStatus());
  proxy.SetTarget(ends.server->address());
  Client far(ends.loop.executor(), proxy.address(), TestHello("client"), ClientOptions(), nullptr);
  Random random(1);
  for (const size_t size : {0, 1, 70'000, 3'000'000}) {
    CAPTURE(size);
    const std::vector<Bytes> segments{RandomBytes(random, size)};
    const auto start = Clock::now();
    const auto echoed =
        ends.loop.Run(far.Call(kEcho, Message(Text("hello"), segments), IntoVectors(), Soon()));
    REQUIRE(echoed.status() == absl::OkStatus());
    CHECK(Segments(*echoed) == segments);
    CHECK(Clock::now() - start >= 2 * kDelay);
  }
}

TEST_CASE("each direction keeps order and stays below the rate") {
  constexpr double kBytesPerSecond = 20e6;
  Wire wire(milliseconds(5), kBytesPerSecond);
  Random random(2);
  // More than the link holds, so the writer waits.
  const Bytes bytes = RandomBytes(random, 4'000'000);
  for (const bool back : {false, true}) {
    CAPTURE(back);
    const auto start = Clock::now();
    CHECK((back ? wire.Carry(wire.server, wire.client, bytes)
                : wire.Carry(wire.client, wire.server, bytes)) == bytes);
    CHECK(Clock::now() - start >=
          milliseconds(5) + duration<double>(static_cast<double>(bytes.size()) / kBytesPerSecond));
  }
}

TEST_CASE("bytes in flight arrive before the end of a direction, and the other stays open") {
  Wire wire(milliseconds(10), kFast);
  const Bytes bytes(100'000, std::byte{7});
  REQUIRE(wire.client.write_some(asio::buffer(Text("last words"))) == 10);
  wire.client.shutdown(Socket::shutdown_send);
  const auto [last, end] = wire.Rest(wire.server);
  CHECK(last == Text("last words"));
  CHECK(end == asio::error::eof);
  CHECK(wire.Carry(wire.server, wire.client, bytes) == bytes);
  wire.server.shutdown(Socket::shutdown_send);
  CHECK(wire.Rest(wire.client).second == asio::error::eof);
}

TEST_CASE("a reset of one end drops the bytes in flight and resets the other") {
  Wire wire(milliseconds(10), /*bytes_per_second=*/1);
  REQUIRE(wire.client.write_some(asio::buffer(Bytes(1'000))) > 0);
  wire.client.set_option(asio::socket_base::linger(true, 0));
  wire.client.close();
  const auto [came, end] = wire.Rest(wire.server);
  CHECK(came.empty());
  CHECK(end);
}

}  // namespace
}  // namespace simurgh::rpc
