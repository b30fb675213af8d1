#include <filesystem>

#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/support.h"

namespace simurgh::rpc {
namespace {

struct CountingObserver : Observer {
  void OnCallEnd(std::string_view, absl::StatusCode, std::chrono::nanoseconds) override { ++calls; }
  void OnBytesSent(uint64_t bytes) override { sent += bytes; }
  void OnBytesReceived(uint64_t bytes) override { received += bytes; }
  void OnPayloadCopied(uint64_t bytes) override { copied += bytes; }
  uint64_t calls = 0, sent = 0, received = 0, copied = 0;
};

struct Ends {
  explicit Ends(const std::string& address)
      : server(loop.executor(), TestHello("server"), {}, &server_observer) {
    server.Register(EchoMethod());
    REQUIRE(server.Listen(address).ok());
    client = std::make_unique<Client>(loop.executor(), server.address(), TestHello("client"),
                                      ClientOptions(), &client_observer);
  }

  StatusOr<IncomingMessage> Echo(const std::vector<Bytes>& segments) {
    return loop.Run(client->Call(kEcho, Message(Text("hello"), segments), IntoVectors(), Soon()));
  }

  testing::Loop loop;
  CountingObserver server_observer, client_observer;
  Server server;
  std::unique_ptr<Client> client;
};

std::string UnixAddress() {
  return "unix:" + (std::filesystem::temp_directory_path() /
                    ("simurgh-rpc-test-" + std::to_string(::getpid())))
                       .string();
}

TEST_CASE("what is sent comes back, in every size") {
  const std::string address = GENERATE(std::string("127.0.0.1:0"), UnixAddress());
  Ends ends(address);
  Random random(1);
  for (const size_t size :
       {0, 1, 63, 64, 65, 4'095, 4'096, 4'097, 16'384, 65'536, 1'000'003, 8'388'608}) {
    const std::vector<Bytes> segments{RandomBytes(random, size)};
    const StatusOr<IncomingMessage> echoed = ends.Echo(segments);
    REQUIRE(echoed.status() == absl::OkStatus());
    CHECK(echoed->metadata == Text("hello"));
    CHECK(Segments(*echoed) == segments);
  }
}

}  // namespace
}  // namespace simurgh::rpc
