#include "rpc/transport.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "rpc/async.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Loop;

// The epoll events of a file; 0 if it is not registered.
uint32_t WatchedEvents(int file) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(entry.path());
    for (std::string line; std::getline(info, line);) {
      std::istringstream words(line);
      std::string label, events_label, events;
      int watched = -1;
      words >> label >> watched >> events_label >> events;
      if (label == "tfd:" && watched == file) {
        return static_cast<uint32_t>(std::stoul(events, nullptr, 16));
      }
    }
  }
  return 0;
}

TEST_CASE("IsLocal is true for both ends of a loopback connection, false without a peer") {
  Loop loop;
  const Pair ends(loop);
  CHECK(IsLocal(ends.client));
  CHECK(IsLocal(ends.server));
  CHECK(!IsLocal(Socket(loop.executor())));
}

TEST_CASE("an address in use is ALREADY_EXISTS, a stale path is replaced") {
  Loop loop;
  const std::string path = UnixPath("stale");
  const auto listen = [&](const std::string& address) {
    Server server(loop.executor(), TestHello("server"), {}, nullptr);
    return server.Listen(address);
  };
  for (const std::string& address : {std::string("127.0.0.1:0"), "unix://" + path}) {
    const auto server = NewServer(loop, address);
    CHECK(absl::IsAlreadyExists(listen(server->address())));
  }
  CHECK_FALSE(std::filesystem::exists(path));  // Removed with its server.

  {  // A socket file without a listener, as of a killed process.
    asio::basic_socket_acceptor<asio::generic::stream_protocol> dead(loop.executor());
    const Address address = *ParseAddress("unix://" + path);
    auto listener = Listener::Open(loop.executor(), address);
    REQUIRE(listener.ok());
    REQUIRE(::link(path.c_str(), (path + ".kept").c_str()) == 0);
    (*listener)->Close();
    REQUIRE(std::rename((path + ".kept").c_str(), path.c_str()) == 0);
  }
  CHECK(std::filesystem::exists(path));
  CHECK(listen("unix://" + path) == absl::OkStatus());

  // A file that is not a socket stays.
  std::FILE* file = std::fopen(path.c_str(), "w");
  REQUIRE(file != nullptr);
  std::fclose(file);
  CHECK(absl::IsAlreadyExists(listen("unix://" + path)));
  CHECK(std::filesystem::exists(path));
  std::filesystem::remove(path);
}

TEST_CASE("a caller cancelled during a name lookup does not connect") {
  Loop loop;
  const auto listener = *Listener::Open(loop.executor(), *ParseAddress("127.0.0.1:0"));
  asio::cancellation_signal cancel;
  std::optional<Status> result;
  const auto connect = [&]() -> awaitable<void> {
    co_await asio::this_coro::throw_if_cancelled(false);
    const auto socket = co_await Connect(*ParseAddress(listener->address()), Soon());
    result = socket.status();
  };
  SpawnCancellable(loop.executor(), connect(), cancel, [](const std::exception_ptr& /*none*/) {});
  // Before the resolver's answer, which is at most posted to the event loop.
  asio::post(loop.context(), [&] { cancel.emit(asio::cancellation_type::terminal); });
  loop.context().restart();
  loop.context().run();
  REQUIRE(result.has_value());
  CHECK(absl::IsCancelled(*result));
}

TEST_CASE("both ends of a TCP connection detect a dead machine") {
  Loop loop;
  auto listener = *Listener::Open(loop.executor(), *ParseAddress("127.0.0.1:0"));
  const auto option = [](Socket& socket, int level, int name) {
    int value = 0;
    socklen_t size = sizeof(value);
    CHECK(::getsockopt(socket.native_handle(), level, name, &value, &size) == 0);
    return value;
  };
  const auto check = [&](StatusOr<Socket> socket) -> Status {
    SIMURGH_RETURN_IF_ERROR(socket.status());
    CHECK(option(*socket, SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option(*socket, IPPROTO_TCP, TCP_KEEPIDLE) == 30);
    CHECK(option(*socket, IPPROTO_TCP, TCP_KEEPINTVL) == 10);
    CHECK(option(*socket, IPPROTO_TCP, TCP_USER_TIMEOUT) == 120'000);
    return absl::OkStatus();
  };
  const auto connect = [&]() -> awaitable<Status> {
    co_return check(co_await Connect(*ParseAddress(listener->address()), Soon()));
  };
  const auto accept = [&]() -> awaitable<Status> { co_return check(co_await listener->Accept()); };
  CHECK(loop.Run(Both(connect(), accept())) == absl::OkStatus());
}

TEST_CASE("loopback connections are not paced") {
  Loop loop;
  Pair pair(loop);
  for (Socket* socket : {&pair.client, &pair.server}) {
    std::array<char, 16> name{};
    socklen_t size = name.size();
    const int handle = socket->native_handle();
    CHECK(::getsockopt(handle, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0);
    CHECK(std::string(name.data()) == "reno");
  }
}

TEST_CASE("writability wakes the thread only while a write waits") {
  Loop loop;
  Pair ends(loop);
  for (Socket* socket : {&ends.client, &ends.server}) {
    const uint32_t events = WatchedEvents(socket->native_handle());
    CHECK((events & EPOLLIN) != 0);
    CHECK((events & EPOLLOUT) == 0);
  }
}

}  // namespace
}  // namespace simurgh::rpc
