#pragma once

// Both ends of a connection in one event loop, and ends whose peer the test controls.

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <catch2/catch.hpp>

#include "rpc/async.h"
#include "rpc/control.h"
#include "tests/support/rpc/raw_peer.h"
#include "tests/unit/rpc/support.h"

namespace simurgh::rpc {

inline constexpr MethodId kWork{.number = 2, .name = "work"};

struct RecordingObserver : Observer {
  void OnClose(std::string_view, CloseReason reason, const Status& status) override {
    closes.push_back(reason);
    errors.emplace_back(status.ToString());
  }
  void OnConnect(std::string_view) override { ++connects; }
  void OnDisconnect(std::string_view, const Status&) override { ++disconnects; }
  void OnThrottle(std::string_view, ThrottleReason reason) override {
    ++throttles[static_cast<size_t>(reason)];
  }
  int throttled(ThrottleReason reason) const { return throttles[static_cast<size_t>(reason)]; }

  std::vector<CloseReason> closes;
  std::vector<std::string> errors;  // By close, as in `closes`.
  std::array<int, kThrottleReasons> throttles{};
  int connects = 0, disconnects = 0;
};

using Handler = std::function<awaitable<StatusOr<OutgoingMessage>>(Request)>;

// A server with an echo and one method of the test, and its client.
struct Ends {
  explicit Ends(Handler work = EchoMethod().handle, ServerOptions options = {},
                Placement placement = IntoVectors())
      : server(std::make_unique<Server>(loop.executor(), TestHello("server"), options, &observer)) {
    server->Register(EchoMethod());
    server->Register({.id = kWork, .placement = std::move(placement), .handle = std::move(work)});
    REQUIRE(server->Listen("127.0.0.1:0") == absl::OkStatus());
    client = NewClient();
  }

  std::unique_ptr<Client> NewClient(ClientOptions options = {}, Hello hello = TestHello("client")) {
    return std::make_unique<Client>(loop.executor(), server->address(), hello, options, nullptr);
  }
  StatusOr<IncomingMessage> Call(const MethodId& method, Clock::time_point deadline = Soon()) {
    return loop.Run(client->Call(method, Message(Text("x")), IntoVectors(), deadline));
  }
  bool EchoWorks() { return Call(kEcho).ok(); }

  testing::Loop loop;
  RecordingObserver observer;
  std::unique_ptr<Server> server;
  std::unique_ptr<Client> client;
};

// A peer that has exchanged HELLOs with the server.
[[nodiscard]] inline awaitable<StatusOr<testing::RawPeer>> Enter(const Ends& ends) {
  SIMURGH_CO_ASSIGN_OR_RETURN(testing::RawPeer peer,
                              co_await testing::RawPeer::Dial(ends.server->address()));
  SIMURGH_CO_RETURN_IF_ERROR(co_await peer.ShakeHands(TestHello("peer")));
  co_return std::move(peer);
}

// A handler that waits until it is cancelled.
struct Hang {
  [[nodiscard]] awaitable<StatusOr<OutgoingMessage>> operator()(Request /*request*/) {
    started.NotifyAll();
    co_await asio::this_coro::throw_if_cancelled(false);
    Waiter forever(executor, Clock::time_point::max());
    co_await forever.Wait();
    ++cancelled;
    ended.NotifyAll();
    co_return absl::CancelledError("told to stop");
  }
  explicit Hang(asio::any_io_executor on) : executor(on), started(on), ended(on) {}
  asio::any_io_executor executor;
  WaitList started, ended;
  int cancelled = 0;
};

// Waits for the throttling; fails the test if it does not happen.
[[nodiscard]] inline awaitable<void> UntilThrottled(const RecordingObserver& observer,
                                                    ThrottleReason reason) {
  const Clock::time_point deadline = Soon();
  while (observer.throttled(reason) == 0 && Clock::now() < deadline) {
    co_await asio::post(asio::use_awaitable);
  }
  CHECK(observer.throttled(reason) > 0);
}

[[nodiscard]] inline awaitable<Status> Both(awaitable<Status> one, awaitable<Status> other) {
  std::vector<awaitable<Status>> tasks;
  tasks.push_back(std::move(one));
  tasks.push_back(std::move(other));
  co_return co_await WhenAll(std::move(tasks));
}

// Two ends of one TCP connection.
struct Pair {
  explicit Pair(testing::Loop& loop) : client(loop.executor()), server(loop.executor()) {
    auto listener = *Listener::Open(loop.executor(), *ParseAddress("127.0.0.1:0"));
    const auto connect = [&]() -> awaitable<Status> {
      SIMURGH_CO_ASSIGN_OR_RETURN(client,
                                  co_await Connect(*ParseAddress(listener->address()), Soon()));
      co_return absl::OkStatus();
    };
    const auto accept = [&]() -> awaitable<Status> {
      SIMURGH_CO_ASSIGN_OR_RETURN(server, co_await listener->Accept());
      co_return absl::OkStatus();
    };
    REQUIRE(loop.Run(Both(connect(), accept())) == absl::OkStatus());
  }

  Socket client;
  Socket server;
};

// A client whose server is a raw peer.
struct RawServer {
  explicit RawServer(testing::Loop& loop)
      : listener(*Listener::Open(loop.executor(), *ParseAddress("127.0.0.1:0"))),
        client(loop.executor(), listener->address(), TestHello("client"), ClientOptions(),
               nullptr) {}

  [[nodiscard]] awaitable<testing::RawPeer> Accept(
      testing::RawFrame hello = testing::HelloFrame(TestHello("server"))) {
    auto socket = co_await listener->Accept();
    REQUIRE(socket.ok());
    testing::RawPeer peer(*std::move(socket));
    const Status said = co_await peer.Send(testing::Encode(hello));
    REQUIRE(said == absl::OkStatus());
    const auto answer = co_await peer.Read();
    REQUIRE(answer.status() == absl::OkStatus());
    REQUIRE(answer->header.kind == FrameKind::kHello);
    co_return std::move(peer);
  }

  std::unique_ptr<Listener> listener;
  Client client;
};

inline testing::RawFrame EchoRequest(uint64_t id, std::vector<Bytes> segments) {
  testing::RawFrame frame;
  frame.header.kind = FrameKind::kRequest;
  frame.header.request_id = id;
  frame.header.method = kEcho.number;
  frame.segments = std::move(segments);
  return frame;
}

inline testing::RawFrame Response(uint64_t id, std::vector<Bytes> segments) {
  testing::RawFrame frame;
  frame.header.kind = FrameKind::kResponse;
  frame.header.request_id = id;
  frame.segments = std::move(segments);
  return frame;
}

// The head of a chunked message.
inline testing::RawFrame HeadOf(testing::RawFrame frame) {
  frame.header.flags = kFlagChunked;
  return frame;
}

// The bytes of several frames.
inline Bytes EncodeAll(const std::vector<testing::RawFrame>& frames) {
  Bytes all;
  for (const testing::RawFrame& frame : frames) {
    const Bytes one = testing::Encode(frame);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// A server with an echo.
inline std::unique_ptr<Server> NewServer(testing::Loop& loop, const std::string& address,
                                         Observer* observer = nullptr,
                                         Hello hello = TestHello("server")) {
  auto server =
      std::make_unique<Server>(loop.executor(), std::move(hello), ServerOptions(), observer);
  server->Register(EchoMethod());
  REQUIRE(server->Listen(address) == absl::OkStatus());
  return server;
}

// A path that no other process uses.
inline std::string UnixPath(const char* name) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("simurgh-rpc-" + std::string(name) + "-" + std::to_string(::getpid()));
  return path.string();
}

}  // namespace simurgh::rpc
