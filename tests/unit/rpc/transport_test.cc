#include "rpc/transport.h"

#include <cstdio>
#include <filesystem>

#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Loop;

TEST_CASE("an address in use is ALREADY_EXISTS, a path left behind is taken over") {
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

  {  // A socket file that nobody listens on, as a killed process leaves it.
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

  // A file that is no socket is not touched.
  std::FILE* file = std::fopen(path.c_str(), "w");
  REQUIRE(file != nullptr);
  std::fclose(file);
  CHECK(absl::IsAlreadyExists(listen("unix://" + path)));
  CHECK(std::filesystem::exists(path));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace simurgh::rpc
