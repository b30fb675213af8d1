#include <algorithm>
#include <optional>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>

#include "rpc/async.h"
#include "rpc/tls.h"
#include "tests/support/rpc/certificates.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Loop;
using testing::TestAuthority;
using ErrorCode = Stream::ErrorCode;

// Both ends of one connection.
struct Wire {
  explicit Wire(Loop& of) : loop(of), near(of.executor()), far(of.executor()) {
    auto listener = *Listener::Open(loop.executor(), *ParseAddress("127.0.0.1:0"));
    const auto meet = [&]() -> awaitable<void> {
      auto dialled = co_await Connect(*ParseAddress(listener->address()), Soon());
      auto accepted = co_await listener->Accept();
      near = *std::move(dialled);
      far = *std::move(accepted);
    };
    loop.Run(meet());
  }
  Wire(Loop& of, std::shared_ptr<const TlsContext> client_context,
       std::shared_ptr<const TlsContext> server_context, const std::string& host = "127.0.0.1")
      : Wire(of) {
    client = ConnectTls(std::move(near), std::move(client_context), host);
    server = AcceptTls(std::move(far), std::move(server_context), "plain");
  }

  // Each end sends a byte and reads the other's. Returns the results of the reads.
  void Greet() {
    const std::byte byte{1};
    const asio::const_buffer greeting(&byte, 1);
    CHECK(client->TryWrite({&greeting, 1}).bytes == 1);
    CHECK(server->TryWrite({&greeting, 1}).bytes == 1);
    const auto greet = [&](std::shared_ptr<Stream>& stream, ErrorCode& error) -> awaitable<Status> {
      std::byte destination{};
      const asio::mutable_buffer room(&destination, 1);
      const auto progress = co_await stream->Read({&room, 1}, {});
      error = progress.error;
      if (error) stream->Close();
      co_return absl::OkStatus();
    };
    REQUIRE(loop.Run(Both(greet(client, client_error), greet(server, server_error))).ok());
  }

  Loop& loop;
  Socket near, far;
  std::shared_ptr<Stream> client, server;
  ErrorCode client_error, server_error;
};

[[nodiscard]] awaitable<ErrorCode> Writable(Stream& stream) {
  Waiter waiter(stream.executor(), Clock::time_point::max());
  ErrorCode error;
  stream.WhenWritable([&](const ErrorCode& result) {
    error = result;
    waiter.Wake();
  });
  co_await waiter.Wait();
  co_return error;
}

// Writes pieces of all sizes, several buffers at a time.
[[nodiscard]] awaitable<Status> WriteAll(Stream& stream, const Bytes& bytes, Random& random) {
  size_t done = 0;
  while (done < bytes.size()) {
    std::vector<asio::const_buffer> buffers;
    for (size_t from = done; from < bytes.size() && buffers.size() < 3;) {
      const size_t size = std::min<size_t>(random.Below(200'000), bytes.size() - from);
      buffers.emplace_back(bytes.data() + from, size);
      from += size;
    }
    const auto [error, count] = stream.TryWrite(buffers);
    if (error == asio::error::would_block) {
      const auto failure = co_await Writable(stream);
      if (failure) co_return absl::UnavailableError(failure.message());
      continue;
    }
    if (error) co_return absl::UnavailableError(error.message());
    done += count;
  }
  co_return absl::OkStatus();
}

// Reads until `count` bytes or the end of the stream.
[[nodiscard]] awaitable<Bytes> ReadUpTo(Stream& stream, size_t count, Random& random,
                                        ErrorCode* end = nullptr) {
  Bytes bytes(count);
  size_t done = 0;
  while (done < count) {
    const size_t size = std::min<size_t>(1 + random.Below(50'000), count - done);
    const asio::mutable_buffer destination(bytes.data() + done, size);
    Stream::Progress progress = stream.TryRead({&destination, 1});
    if (progress.error == asio::error::would_block) {
      progress = co_await stream.Read({&destination, 1}, {});
    }
    if (progress.error) {
      if (end != nullptr) *end = progress.error;
      break;
    }
    done += progress.bytes;
  }
  bytes.resize(done);
  co_return bytes;
}

TEST_CASE("TLS passes bytes in both directions with any sizes of reads and writes", "[tls]") {
  Loop loop;
  TestAuthority authority;
  Wire wire(loop, authority.Context("client"), authority.Context("server"));
  const auto seed = GENERATE(take(3, random(0, 1 << 30)));
  INFO("seed " << seed);
  Random random(static_cast<uint64_t>(seed));
  const Bytes there = RandomBytes(random, 3'000'000);
  const Bytes back = RandomBytes(random, 700'000);
  const auto read = [&](Stream& from, const Bytes& expected) -> awaitable<Status> {
    const Bytes got = co_await ReadUpTo(from, expected.size(), random);
    co_return got == expected ? absl::OkStatus() : absl::DataLossError("other bytes");
  };
  std::vector<awaitable<Status>> tasks;
  tasks.push_back(WriteAll(*wire.client, there, random));
  tasks.push_back(WriteAll(*wire.server, back, random));
  tasks.push_back(read(*wire.server, there));
  tasks.push_back(read(*wire.client, back));
  CHECK(loop.Run(WhenAll(std::move(tasks))) == absl::OkStatus());
}

TEST_CASE("bytes accepted before Close() arrive, and Close() ends all waits", "[tls]") {
  Loop loop;
  TestAuthority authority;
  Wire wire(loop, authority.Context("client"), authority.Context("server"));
  wire.Greet();
  Random random(5);
  const Bytes sent = RandomBytes(random, 100'000);
  const auto close = [&]() -> awaitable<Status> {
    const asio::const_buffer all(sent.data(), sent.size());
    const auto [error, taken] = wire.client->TryWrite({&all, 1});
    CHECK_FALSE(error);
    CHECK(taken > 0);
    wire.client->Close();
    wire.client->Close();
    CHECK(wire.client->TryWrite({&all, 1}).error == asio::error::operation_aborted);
    const auto never = co_await Writable(*wire.client);
    CHECK(never == asio::error::operation_aborted);
    wire.client = nullptr;  // The session outlives the stream.
    ErrorCode end;
    const Bytes got = co_await ReadUpTo(*wire.server, sent.size(), random, &end);
    CHECK(got == Bytes(sent.begin(), sent.begin() + taken));
    CHECK(end == asio::error::eof);
    co_return absl::OkStatus();
  };
  CHECK(loop.Run(close()) == absl::OkStatus());
}

TEST_CASE("Close() and `stop` end a read, and a stopped read loses nothing", "[tls]") {
  Loop loop;
  TestAuthority authority;
  Wire wire(loop, authority.Context("client"), authority.Context("server"));
  wire.Greet();
  asio::cancellation_signal stop;
  std::byte destination{};
  const asio::mutable_buffer buffer(&destination, 1);
  // When the read waits.
  const auto read = [&](asio::cancellation_slot slot,
                        std::function<void()> meanwhile) -> awaitable<ErrorCode> {
    asio::post(loop.context(), std::move(meanwhile));
    const auto result = co_await wire.server->Read({&buffer, 1}, slot);
    co_return result.error;
  };
  const auto emit = [&] { stop.emit(asio::cancellation_type::terminal); };
  CHECK(loop.Run(read(stop.slot(), emit)) == asio::error::operation_aborted);
  const std::byte sent{0x5a};
  const asio::const_buffer one(&sent, 1);
  CHECK(wire.client->TryWrite({&one, 1}).bytes == 1);
  CHECK_FALSE(loop.Run(read({}, [] {})));
  CHECK(destination == sent);
  const auto close = [&] { wire.server->Close(); };
  CHECK(loop.Run(read({}, close)) == asio::error::operation_aborted);
}

TEST_CASE("a read without `stop` ends when its caller is cancelled", "[tls]") {
  Loop loop;
  TestAuthority authority;
  Wire wire(loop, authority.Context("client"), authority.Context("server"));
  wire.Greet();
  asio::cancellation_signal cancel;
  std::optional<ErrorCode> end;
  const auto read = [&]() -> awaitable<void> {
    co_await asio::this_coro::throw_if_cancelled(false);
    std::byte destination{};
    const asio::mutable_buffer buffer(&destination, 1);
    const auto result = co_await wire.client->Read({&buffer, 1}, {});
    end = result.error;
  };
  SpawnCancellable(loop.executor(), read(), cancel, [](const std::exception_ptr& /*none*/) {});
  asio::post(loop.context(), [&] { cancel.emit(asio::cancellation_type::terminal); });
  loop.context().restart();
  loop.context().run_for(std::chrono::seconds(10));
  CHECK(end == asio::error::operation_aborted);
}

TEST_CASE("a server with another name is refused", "[tls]") {
  Loop loop;
  TestAuthority authority;
  const auto server = authority.Context("server", {.alternative_names = "DNS:ps.example,IP:::1"});
  TlsOptions asking = authority.Issue("client");
  std::string host = "127.0.0.1";
  std::string expected;
  SECTION("another address") { expected = "IP address mismatch"; }
  SECTION("another host") {
    host = "worker.example";
    expected = "ostname mismatch";
  }
  SECTION("its host") { host = "ps.example"; }
  SECTION("its address") { host = "::1"; }
  SECTION("whatever the host, by the name that the client asks for") {
    asking.peer_name = "ps.example";
  }
  Wire wire(loop, *TlsContext::Load(asking), server, host);
  wire.Greet();
  INFO(wire.client_error.message());
  CHECK(IsTlsRefusal(wire.client_error) == !expected.empty());
  CHECK(IsTlsRefusal(wire.server_error) == !expected.empty());
  if (expected.empty()) return;
  CHECK_THAT(wire.client_error.message(), Catch::Contains(expected));
  CHECK_THAT(wire.server_error.message(), Catch::Contains("refused this end"));
  const auto writable = [&]() -> awaitable<ErrorCode> {
    co_return co_await Writable(*wire.client);
  };
  CHECK(loop.Run(writable()));
}

TEST_CASE("ends of different authorities refuse each other", "[tls]") {
  Loop loop;
  TestAuthority authority, stranger;
  SECTION("the client finds a strange server") {
    Wire wire(loop, authority.Context("client"), stranger.Context("server"));
    wire.Greet();
    CHECK_THAT(wire.client_error.message(), Catch::Contains("certificate is not trusted"));
    CHECK(IsTlsRefusal(wire.client_error));
    CHECK(IsTlsRefusal(wire.server_error));
  }
  SECTION("the server finds a strange client") {
    // This client trusts the server's authority, but the server does not trust the client's.
    TlsOptions client = stranger.Issue("client");
    client.authority_file =
        stranger.Write("both.pem", TestAuthority::Read(stranger.certificate_file()) +
                                       TestAuthority::Read(authority.certificate_file()));
    Wire wire(loop, *TlsContext::Load(client), authority.Context("server"));
    wire.Greet();
    CHECK_THAT(wire.server_error.message(), Catch::Contains("certificate is not trusted"));
    CHECK_THAT(wire.client_error.message(), Catch::Contains("unknown ca"));
    CHECK(IsTlsRefusal(wire.client_error));
    CHECK(IsTlsRefusal(wire.server_error));
  }
}

TEST_CASE("an end without TLS is detected, and a client without TLS gets an ERROR", "[tls]") {
  Loop loop;
  TestAuthority authority;
  const auto context = authority.Context("both");
  Wire wire(loop);
  std::byte destination{};
  const asio::mutable_buffer room(&destination, 1);
  const auto read = [&](std::shared_ptr<Stream> stream) -> awaitable<ErrorCode> {
    const auto progress = co_await stream->Read({&room, 1}, {});
    co_return progress.error;
  };
  const auto client = [&] { return ConnectTls(std::move(wire.near), context, "127.0.0.1"); };
  const auto server = [&] { return AcceptTls(std::move(wire.far), context, "plain"); };
  ErrorCode error;
  SECTION("a server that closes") {
    wire.far.close();
    error = loop.Run(read(client()));
    CHECK_FALSE(IsTlsRefusal(error));
    CHECK_THAT(error.message(), Catch::Contains("may not use TLS"));
  }
  SECTION("a server that closes with unread bytes, which resets the connection") {
    const auto close = [&]() -> awaitable<Status> {
      co_await wire.far.async_wait(Socket::wait_read, kNoThrow);
      wire.far.close();
      co_return absl::OkStatus();
    };
    const auto dial = [&]() -> awaitable<Status> {
      error = co_await read(client());
      co_return absl::OkStatus();
    };
    CHECK(loop.Run(Both(close(), dial())).ok());
    CHECK_THAT(error.message(), Catch::Contains("may not use TLS"));
  }
  SECTION("a client that says something else") {
    asio::write(wire.near, asio::buffer("SMRG" + std::string(60, '\0')));
    const auto hear = [&]() -> awaitable<Status> {
      std::string heard;
      const auto [end, count] =
          co_await asio::async_read(wire.near, asio::dynamic_buffer(heard), kNoThrow);
      CHECK(end == asio::error::eof);
      CHECK(heard == "plain");
      wire.near.close();
      co_return absl::OkStatus();
    };
    const auto accept = [&]() -> awaitable<Status> {
      error = co_await read(server());
      co_return absl::OkStatus();
    };
    CHECK(loop.Run(Both(hear(), accept())).ok());
    CHECK(IsTlsRefusal(error));
    CHECK_THAT(error.message(), Catch::Contains("does not use it"));
  }
  SECTION("a client with the first byte of TLS and then nothing of it") {
    asio::write(wire.near, asio::buffer(std::string(40, '\x16')));
    wire.near.shutdown(Socket::shutdown_send);
    error = loop.Run(read(server()));
    CHECK(IsTlsRefusal(error));
  }
}

TEST_CASE("Close() ends a handshake", "[tls]") {
  Loop loop;
  TestAuthority authority;
  Wire wire(loop);
  std::shared_ptr<Stream> stream;
  SECTION("client") { stream = ConnectTls(std::move(wire.near), authority.Context("x"), "h"); }
  SECTION("server") { stream = AcceptTls(std::move(wire.far), authority.Context("x"), ""); }
  SECTION("server, of a client that only begins") {
    asio::write(wire.near, asio::buffer(std::string("\x16\x03\x01")));
    stream = AcceptTls(std::move(wire.far), authority.Context("x"), "");
  }
  SECTION("server, of a client that does not go") {
    asio::write(wire.near, asio::buffer(std::string("GET / HTTP/1.1\r\n")));
    stream = AcceptTls(std::move(wire.far), authority.Context("x"), "no");
  }
  // After all available bytes have been read.
  asio::post(loop.context(), [&] { asio::post(loop.context(), [&] { stream->Close(); }); });
  std::byte destination{};
  const asio::mutable_buffer room(&destination, 1);
  const auto read = [&]() -> awaitable<ErrorCode> {
    const auto progress = co_await stream->Read({&room, 1}, {});
    co_return progress.error;
  };
  CHECK(loop.Run(read()) == asio::error::operation_aborted);
}

}  // namespace
}  // namespace simurgh::rpc
