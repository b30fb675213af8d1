#include "rpc/address.h"

#include <filesystem>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <catch2/catch.hpp>

#include "rpc/server.h"
#include "rpc/transport.h"
#include "tests/support/skip.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using asio::ip::tcp;
using Kind = Address::Kind;
using testing::Loop;

TEST_CASE("ToString is the inverse of ParseAddress") {
  const std::pair<const char*, Address> cases[] = {
      {"host.name:80", {.kind = Kind::kTcp, .host = "host.name", .port = 80}},
      {"[::1]:65535", {.kind = Kind::kTcp, .host = "::1", .port = 65'535}},
      {"unix:///tmp/x", {.kind = Kind::kUnix, .path = "/tmp/x"}},
      {"shm:///tmp/a:b", {.kind = Kind::kSharedMemory, .path = "/tmp/a:b"}},
      {"auto://127.0.0.1:7", {.kind = Kind::kAuto, .host = "127.0.0.1", .port = 7}},
      {"auto://[::]:0", {.kind = Kind::kAuto, .host = "::"}},
  };
  for (const auto& [text, address] : cases) {
    INFO(text);
    REQUIRE(ParseAddress(text).ok());
    CHECK(*ParseAddress(text) == address);
    CHECK(ToString(address) == text);
  }
  CHECK(*ParseAddress("tcp://host:1") == *ParseAddress("host:1"));
}

TEST_CASE("malformed addresses are refused") {
  for (const std::string& wrong :
       {std::string(""), std::string("host"), std::string(":80"), std::string("host:"),
        std::string("host:65536"), std::string("host:-1"), std::string("host:8x"),
        std::string("::1:80"), std::string("unix:/tmp/x"), std::string("unix://"),
        std::string("unix://tmp/x"), std::string("shm://"), std::string("tcp:///tmp/x"),
        std::string("auto://host"), std::string("udp://host:80"), std::string("://host:80"),
        "unix:///" + std::string(107, 'x')}) {
    INFO(wrong);
    CHECK(absl::IsInvalidArgument(ParseAddress(wrong).status()));
  }
}

// How a client of this address reaches it: "unix" over a local socket, else an address.
std::string Reached(Loop& loop, const std::string& address) {
  const auto socket = loop.Run(Connect(*ParseAddress(address), Soon()));
  REQUIRE(socket.status() == absl::OkStatus());
  return PeerName(*socket);
}

// At the port of another listener.
std::string AtPort(const std::string& prefix, const Listener& listener) {
  return prefix + ":" + std::to_string(ParseAddress(listener.address())->port);
}

TEST_CASE("auto uses the local socket of a server on this host") {
  Loop loop;
  const std::string host = GENERATE(std::string("127.0.0.1"), std::string("[::1]"),
                                    std::string("0.0.0.0"), std::string("[::]"));
  const auto listeners =
      Listen(loop.executor(), *ParseAddress("auto://" + host + ":0"), Reach::kAll);
  REQUIRE(listeners.status() == absl::OkStatus());
  CHECK((*listeners)[0]->address().starts_with("auto://" + host));
  const std::string client = host.starts_with('[') ? "[::1]" : "127.0.0.1";
  CHECK(Reached(loop, AtPort("auto://" + client, *(*listeners)[0])) == "unix");
  CHECK(Reached(loop, AtPort(client, *(*listeners)[0])) == AtPort(client, *(*listeners)[0]));
}

TEST_CASE("auto uses TCP without a local socket") {
  Loop loop;
  const auto listener = Listener::Open(loop.executor(), *ParseAddress("127.0.0.1:0"));
  REQUIRE(listener.ok());
  CHECK(Reached(loop, "auto://" + (*listener)->address()) == (*listener)->address());
  (*listener)->Close();
  const auto refused = loop.Run(Connect(*ParseAddress("auto://" + (*listener)->address()), Soon()));
  CHECK(absl::IsUnavailable(refused.status()));
}

TEST_CASE("an auto server listens on TCP only when its local name is taken") {
  Loop loop;
  auto tcp_only = Listener::Open(loop.executor(), *ParseAddress("127.0.0.1:0"));
  REQUIRE(tcp_only.ok());
  const auto squatter = Listener::OpenLocal(**tcp_only);
  REQUIRE(squatter.ok());
  const Address address = *ParseAddress("auto://" + (*tcp_only)->address());
  (*tcp_only)->Close();
  {
    const auto listeners = Listen(loop.executor(), address);
    REQUIRE(listeners.status() == absl::OkStatus());
    CHECK(listeners->size() == 1);
  }
  struct : Observer {
    void OnClose(std::string_view where, CloseReason, const Status&) override { name = where; }
    std::string name;
  } observer;
  Server server(loop.executor(), TestHello("server"), {}, &observer);
  REQUIRE(server.Listen(ToString(address)) == absl::OkStatus());
  CHECK(observer.name == ToString(address));
}

TEST_CASE("without a token, a socket with a path is for its user") {
  Loop loop;
  const std::string path = UnixPath("own");
  const std::string url = GENERATE(std::string("unix://"), std::string("shm://")) + path;
  const Users users = GENERATE(Users::kOwn, Users::kAll);
  const mode_t before = ::umask(0);
  const auto listener =
      Listener::Open(loop.executor(), *ParseAddress(url), Reach::kThisHost, users);
  ::umask(before);
  REQUIRE(listener.status() == absl::OkStatus());
  const auto mode = static_cast<int>(std::filesystem::status(path).permissions());
  CHECK(mode == (users == Users::kOwn ? 0600 : 0777));
  CHECK(loop.Run(Connect(*ParseAddress(url), Soon(), users)).ok());
  REQUIRE(loop.Run((*listener)->Accept()).ok());
  if (::geteuid() != 0) SIMURGH_SKIP("only root can change its user");

  // Another user, whom the file's mode does not keep out.
  constexpr uid_t kNobody = 65'534;
  REQUIRE(::chmod(path.c_str(), 0777) == 0);
  Socket stranger(loop.executor());
  if (::seteuid(kNobody) != 0) SIMURGH_SKIP("this user namespace has no other user");
  stranger.connect(asio::local::stream_protocol::endpoint(path));
  REQUIRE(::seteuid(0) == 0);
  Socket friendly(loop.executor());
  friendly.connect(asio::local::stream_protocol::endpoint(path));
  auto accepted = loop.Run((*listener)->Accept());
  REQUIRE(accepted.ok());
  accepted->close();
  char byte = 0;
  boost::system::error_code end;
  Socket& closed = users == Users::kOwn ? friendly : stranger;
  CHECK(asio::read(closed, asio::buffer(&byte, 1), end) == 0);  // Of the one that was accepted.
}

TEST_CASE("without a token, a client does not use the socket of another user") {
  if (::geteuid() != 0) SIMURGH_SKIP("only root can change its user");
  constexpr uid_t kNobody = 65'534;
  Loop loop;
  const std::string path = UnixPath("foreign");
  const Address address = *ParseAddress("unix://" + path);
  REQUIRE(::chmod(path.substr(0, path.rfind('/')).c_str(), 0777) == 0);
  if (::seteuid(kNobody) != 0) SIMURGH_SKIP("this user namespace has no other user");
  const auto listener = Listener::Open(loop.executor(), address);
  REQUIRE(::seteuid(0) == 0);
  REQUIRE(listener.status() == absl::OkStatus());
  const Status refused = loop.Run(Connect(address, Soon())).status();
  CHECK(absl::IsPermissionDenied(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("set cluster.token_file"));
  CHECK(loop.Run(Connect(address, Soon(), Users::kAll)).ok());
}

TEST_CASE("a local socket of another user is not used") {
  if (::geteuid() != 0) SIMURGH_SKIP("only root can change the user of a socket");
  constexpr uid_t kNobody = 65'534;
  Loop loop;
  auto listener = Listener::Open(loop.executor(), *ParseAddress("127.0.0.1:0"));
  REQUIRE(listener.ok());
  const std::string address = (*listener)->address();
  if (::seteuid(kNobody) != 0) SIMURGH_SKIP("this user namespace has no other user");
  auto foreign = Listener::OpenLocal(**listener);
  REQUIRE(::seteuid(0) == 0);
  REQUIRE(foreign.ok());
  CHECK(Reached(loop, "auto://" + address) == address);
  (*foreign)->Close();

  // A client of another user is not accepted, either.
  auto own = Listener::OpenLocal(**listener);
  REQUIRE(own.ok());
  const auto name =
      LocalEndpoint(LocalName({asio::ip::make_address("127.0.0.1"), ParseAddress(address)->port}));
  Socket stranger(loop.executor());
  if (::seteuid(kNobody) != 0) SIMURGH_SKIP("this user namespace has no other user");
  stranger.connect(name);
  REQUIRE(::seteuid(0) == 0);
  Socket friendly(loop.executor());
  friendly.connect(name);
  REQUIRE(loop.Run((*own)->Accept()).ok());
  char byte = 0;
  boost::system::error_code error;
  stranger.read_some(asio::buffer(&byte, 1), error);
  CHECK(error == asio::error::eof);
}

TEST_CASE("only endpoints of this host have local names") {
  const auto names = [](const char* host) { return LocalNames({asio::ip::make_address(host), 7}); };
  CHECK(names("127.0.0.1") == std::vector<std::string>{"simurgh-rpc/127.0.0.1:7",
                                                       "simurgh-rpc/0.0.0.0:7",
                                                       "simurgh-rpc/[::]:7"});
  CHECK(names("::1") == std::vector<std::string>{"simurgh-rpc/[::1]:7", "simurgh-rpc/[::]:7"});
  CHECK(names("192.0.2.1").empty());  // Reserved for documentation.
}

}  // namespace
}  // namespace simurgh::rpc
