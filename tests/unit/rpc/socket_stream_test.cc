// A socket's waits: nothing that happens is missed, whether somebody waits for it or not, and no
// wait outlives the stream.

#include "rpc/socket_stream.h"

#include <array>
#include <optional>
#include <string_view>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Loop;
using ErrorCode = Stream::ErrorCode;

// Connected sockets.
std::array<FileDescriptor, 2> UnixPair() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::array<FileDescriptor, 2> TcpPair() {
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  REQUIRE(::bind(listener.number(), any, size) == 0);
  REQUIRE(::listen(listener.number(), 1) == 0);
  REQUIRE(::getsockname(listener.number(), any, &size) == 0);
  FileDescriptor near(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(near.number(), any, size) == 0);
  FileDescriptor far(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(far.number() >= 0);
  return {std::move(near), std::move(far)};
}

// A stream and the plain socket of its peer.
struct Wire {
  explicit Wire(bool tcp) {
    std::array<FileDescriptor, 2> ends = tcp ? TcpPair() : UnixPair();
    const asio::generic::stream_protocol protocol(tcp ? AF_INET : AF_UNIX, tcp ? IPPROTO_TCP : 0);
    const int near = ::dup(ends[0].number());
    stream = std::make_shared<SocketStream>(Socket(loop.executor(), protocol, near));
    peer = std::move(ends[1]);
  }

  void Say(std::string_view text) const {
    REQUIRE(::send(peer.number(), text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }

  // Waits for what the peer has said.
  Stream::Progress Read() {
    return loop.Run([](SocketStream& from, asio::mutable_buffer to) -> awaitable<Stream::Progress> {
      co_return co_await from.Read({&to, 1}, {});
    }(*stream, Room()));
  }

  Stream::Progress TryRead() {
    const asio::mutable_buffer to = Room();
    return stream->TryRead({&to, 1});
  }

  asio::mutable_buffer Room() { return {place.data(), place.size()}; }
  std::string_view Text(size_t bytes) const { return {place.data(), bytes}; }

  Loop loop;
  std::shared_ptr<SocketStream> stream;
  FileDescriptor peer;
  std::array<char, 64> place{};
};

TEST_CASE("bytes that come while nobody waits are read") {
  Wire wire(GENERATE(true, false));
  CHECK(wire.TryRead().error == asio::error::would_block);
  wire.Say("one");
  wire.loop.context().poll();
  CHECK(wire.TryRead().bytes == 3);
  CHECK(wire.TryRead().error == asio::error::would_block);
  wire.Say("two");
  CHECK(wire.Read().bytes == 3);
  CHECK(wire.Text(3) == "two");
}

TEST_CASE("the end of a stream is read behind bytes with which it came") {
  Wire wire(GENERATE(true, false));
  CHECK(wire.TryRead().error == asio::error::would_block);
  wire.Say("last");
  wire.peer = FileDescriptor();
  CHECK(wire.Read().bytes == 4);
  CHECK(wire.Read().error == asio::error::eof);
}

TEST_CASE("bytes behind an urgent one are read") {
  Wire wire(true);
  CHECK(wire.TryRead().error == asio::error::would_block);
  wire.Say("before");
  REQUIRE(::send(wire.peer.number(), "!", 1, MSG_OOB | MSG_NOSIGNAL) == 1);
  wire.Say("behind");
  CHECK(wire.Read().bytes == 6);
  CHECK(wire.Read().bytes == 6);
  CHECK(wire.Text(6) == "behind");
}

TEST_CASE("a wait that is stopped takes nothing") {
  Wire wire(GENERATE(true, false));
  asio::cancellation_signal stop;
  std::optional<Stream::Progress> progress;
  const auto wait = [&]() -> awaitable<void> {
    const asio::mutable_buffer to = wire.Room();
    progress = co_await wire.stream->Read({&to, 1}, stop.slot());
  };
  asio::co_spawn(wire.loop.executor(), wait(), asio::detached);
  wire.loop.context().poll();
  CHECK_FALSE(progress.has_value());
  stop.emit(asio::cancellation_type::terminal);
  wire.Say("later");
  while (!progress) wire.loop.context().run_one();
  CHECK(progress->error == asio::error::operation_aborted);
  CHECK(wire.Read().bytes == 5);
}

TEST_CASE("whoever waits for room hears of it once there is some, each time") {
  Wire wire(GENERATE(true, false));
  std::vector<char> bytes(1 << 16);
  for (int round = 0; round < 3; ++round) {
    const asio::const_buffer from(bytes.data(), bytes.size());
    size_t written = 0;
    for (Stream::Progress progress; !progress.error; written += progress.bytes) {
      progress = wire.stream->TryWrite({&from, 1});
    }
    int told = 0;
    wire.stream->WhenWritable([&](const ErrorCode& error) { told += error ? 2 : 1; });
    wire.loop.context().poll();
    CHECK(told == 0);
    while (written != 0) {
      const ssize_t count = ::recv(wire.peer.number(), bytes.data(), bytes.size(), 0);
      REQUIRE(count > 0);
      written -= static_cast<size_t>(count);
    }
    while (told == 0) wire.loop.context().run_one();
    CHECK(told == 1);
  }
}

TEST_CASE("closing a stream ends its waits and closes the socket") {
  Wire wire(GENERATE(true, false));
  ErrorCode read, written;
  const auto wait = [&]() -> awaitable<void> {
    const asio::mutable_buffer to = wire.Room();
    read = (co_await wire.stream->Read({&to, 1}, {})).error;
  };
  asio::co_spawn(wire.loop.executor(), wait(), asio::detached);
  wire.loop.context().poll();
  wire.stream->WhenWritable([&](const ErrorCode& error) { written = error; });
  wire.stream->Close();
  wire.stream->Close();
  wire.loop.context().run();  // Nothing is left.
  CHECK(read == asio::error::operation_aborted);
  CHECK(written == asio::error::operation_aborted);
}

TEST_CASE("a stream goes with the event loop on which its owner waits") {
  const bool tcp = GENERATE(true, false);
  std::weak_ptr<SocketStream> weak;
  FileDescriptor peer;
  {
    Wire wire(tcp);
    weak = wire.stream;
    peer = std::move(wire.peer);
    const auto wait = [](std::shared_ptr<SocketStream> stream) -> awaitable<void> {
      char place = 0;
      const asio::mutable_buffer to(&place, 1);
      (void)co_await stream->Read({&to, 1}, {});
    };
    asio::co_spawn(wire.loop.executor(), wait(std::move(wire.stream)), asio::detached);
    wire.loop.context().poll();
    CHECK_FALSE(weak.expired());
  }
  CHECK(weak.expired());
  char place = 0;
  CHECK(::recv(peer.number(), &place, 1, 0) == 0);
}

}  // namespace
}  // namespace simurgh::rpc
