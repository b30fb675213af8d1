// Connecting and reconnecting.

#include <new>
#include <optional>

#include <catch2/catch.hpp>

#include "tests/support/rpc/certificates.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Loop;
using testing::RawFrame;
using testing::RawPeer;

TEST_CASE("a client reconnects to a restarted server") {
  Loop loop;
  const std::string where = GENERATE(std::string("127.0.0.1:0"), "unix://" + UnixPath("again"));
  Hello first_life = TestHello("server");
  auto server = NewServer(loop, where, nullptr, first_life);
  const std::string address = server->address();
  Client client(loop.executor(), address, TestHello("client"), {}, nullptr);
  const auto echo = [&](Clock::time_point deadline) {
    return loop.Run(client.Call(kEcho, Message(Text("x")), IntoVectors(), deadline)).status();
  };
  REQUIRE(echo(Soon()) == absl::OkStatus());
  CHECK(client.peer()->incarnation == first_life.incarnation);

  server.reset();
  const Status down = echo(In(std::chrono::milliseconds(100)));
  CHECK(absl::IsUnavailable(down));
  INFO(down);
  CHECK_THAT(std::string(down.message()), Catch::Contains(address));

  Hello second_life = first_life;
  second_life.incarnation = 10;
  server = NewServer(loop, address, nullptr, second_life);
  Status back = echo(Soon());
  CHECK(back == absl::OkStatus());
  CHECK(client.peer()->incarnation == 10);
}

TEST_CASE("the error for an unreachable address has the attempts and the last error") {
  Loop loop;
  const std::string address = "unix://" + UnixPath("nobody");
  Client client(loop.executor(), address, TestHello("client"), {}, nullptr);
  const Status error =
      loop.Run(client.Call(kEcho, {}, NoSegments(), In(std::chrono::milliseconds(200)))).status();
  CHECK(absl::IsUnavailable(error));
  for (const std::string& part : {address, std::string("attempts"), std::string("No such file")}) {
    CHECK_THAT(std::string(error.message()), Catch::Contains(part));
  }
  Client lost(loop.executor(), "no-port", TestHello("client"), {}, nullptr);
  CHECK(absl::IsInvalidArgument(loop.Run(lost.Call(kEcho, {}, NoSegments(), Soon())).status()));
}

TEST_CASE("a client refuses a server that its check refuses, without another attempt") {
  Ends ends;
  ClientOptions options;
  int checks = 0;
  options.check_server = [&](const Hello& server) {
    ++checks;
    return absl::InvalidArgumentError(server.role + " is unwanted");
  };
  ends.client = ends.NewClient(options);
  const Status refused = ends.Call(kEcho).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("server is unwanted"));
  CHECK(checks == 1);
}

TEST_CASE("pauses grow for a server that closes every connection at once") {
  Loop loop;
  RawServer raw(loop);
  const bool goes_away = GENERATE(false, true);
  size_t connections = 0;
  const auto serve = [&]() -> awaitable<Status> {
    for (;;) {
      auto socket = co_await raw.listener->Accept();
      if (!socket.ok()) co_return absl::OkStatus();
      ++connections;
      // Together, so that the client reads both before a call resumes.
      std::vector<RawFrame> frames{testing::HelloFrame(TestHello("server"))};
      frames.emplace_back().header.kind = goes_away ? FrameKind::kGoaway : FrameKind::kHello;
      RawPeer peer(*std::move(socket));
      SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(EncodeAll(frames)));
      co_await peer.ReadToEnd();
    }
  };
  const auto call = [&]() -> awaitable<Status> {
    const auto answer =
        co_await raw.client.Call(kEcho, {}, NoSegments(), In(std::chrono::seconds(1)));
    raw.listener->Close();
    co_return answer.status();
  };
  const Status error = loop.Run(Both(serve(), call()));
  CHECK(absl::IsUnavailable(error));
  CHECK_THAT(std::string(error.message()),
             Catch::Contains(goes_away ? "is stopping" : "malformed"));
  CHECK_THAT(std::string(error.message()), !Catch::Contains(" 0 attempts"));
  // Seven pauses of at least half of 20, 40, 80, ... ms exceed one second.
  CHECK(connections >= 1);
  CHECK(connections <= 10);
}

TEST_CASE("a client retries after an attempt to connect threw") {
  struct ThrowingObserver : Observer {
    void OnConnect(std::string_view) override {
      if (++connects == 1) throw std::bad_alloc();
    }
    int connects = 0;
  } observer;
  Loop loop;
  const auto server = NewServer(loop, "127.0.0.1:0");
  Client client(loop.executor(), server->address(), TestHello("client"), {}, &observer);
  const auto answer = loop.Run(client.Call(kEcho, {}, NoSegments(), Soon()));
  CHECK(answer.status() == absl::OkStatus());
  CHECK(observer.connects == 2);
}

TEST_CASE("attempts to connect are counted since the last connection that answered a call") {
  Loop loop;
  auto server = NewServer(loop, "unix://" + UnixPath("answering"));
  Client client(loop.executor(), server->address(), TestHello("client"), {}, nullptr);
  const auto talk = [&]() -> awaitable<Status> {
    const auto answer = co_await client.Call(kEcho, {}, NoSegments(), Soon());
    SIMURGH_CO_RETURN_IF_ERROR(answer.status());
    server.reset();
    CallOptions options(Soon());
    while (client.peer() != nullptr && Clock::now() < options.deadline) {
      co_await asio::post(asio::use_awaitable);
    }
    options.patience = std::chrono::milliseconds(0);
    co_return (co_await client.Call(kEcho, {}, NoSegments(), options)).status();
  };
  const Status error = loop.Run(talk());
  INFO(error);
  CHECK(absl::IsUnavailable(error));
  CHECK_THAT(std::string(error.message()), Catch::Contains(" 0 attempts: "));
  CHECK_THAT(std::string(error.message()), Catch::Contains("lost: "));
}

TEST_CASE("a client stopped before the server's HELLO leaves nothing in the event loop") {
  testing::TestAuthority authority;
  Loop loop;
  ClientOptions options;
  options.connect_timeout = std::chrono::hours(1);
  std::string where = "127.0.0.1:0";
  SECTION("over TCP") {}
  SECTION("over shared memory") { where = "shm://" + UnixPath("silent"); }
  SECTION("over TLS") { options.tls = authority.Context("client"); }
  const auto listener = *Listener::Open(loop.executor(), *ParseAddress(where));
  Client client(loop.executor(), listener->address(), TestHello("client"), options, nullptr);
  std::optional<RawPeer> silent;
  const auto call = [&]() -> awaitable<Status> {
    const auto answer = co_await client.Call(kEcho, {}, NoSegments(), Soon());
    CHECK(absl::IsCancelled(answer.status()));
    co_return absl::OkStatus();
  };
  const auto stop = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(Socket socket, co_await listener->Accept());
    silent.emplace(std::move(socket));
    Bytes begun(1);
    SIMURGH_CO_RETURN_IF_ERROR(co_await silent->Fill(begun));
    client.Stop();
    co_return absl::OkStatus();
  };
  CHECK(loop.Run(Both(call(), stop())) == absl::OkStatus());
  loop.context().restart();
  loop.context().run_for(std::chrono::seconds(10));
  CHECK(loop.context().stopped());
}

}  // namespace
}  // namespace simurgh::rpc
