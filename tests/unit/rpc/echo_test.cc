#include <filesystem>
#include <numeric>
#include <unordered_map>

#include <unistd.h>

#include <catch2/catch.hpp>

#include "rpc/async.h"
#include "tests/unit/rpc/support.h"

namespace simurgh::rpc {
namespace {

// A path that is free.
std::string Path() {
  const auto path =
      std::filesystem::temp_directory_path() / ("simurgh-rpc-echo-" + std::to_string(::getpid()));
  return path.string();
}

struct Ends {
  explicit Ends(const std::string& address, std::vector<Method> more = {})
      : server(loop.executor(), TestHello("server"), {}, &server_observer) {
    server.Register(EchoMethod());
    for (Method& method : more) server.Register(std::move(method));
    REQUIRE(server.Listen(address) == absl::OkStatus());
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

TEST_CASE("an echo returns payloads of every size") {
  Ends ends(GENERATE(std::string("127.0.0.1:0"), std::string("[::1]:0"), "unix://" + Path(),
                     "shm://" + Path(), std::string("auto://127.0.0.1:0")));
  Random random(1);
  for (const size_t size :
       {0, 1, 63, 64, 65, 4'095, 4'096, 4'097, 16'384, 65'536, 1'000'003, 8'388'608}) {
    const std::vector<Bytes> segments{RandomBytes(random, size)};
    const StatusOr<IncomingMessage> echoed = ends.Echo(segments);
    REQUIRE(echoed.status() == absl::OkStatus());
    CHECK(echoed->metadata == Text("hello"));
    CHECK(Segments(*echoed) == segments);
  }
  CHECK(ends.client_observer.calls == 12);
  CHECK(ends.client_observer.sent == ends.server_observer.received);
  CHECK(ends.client_observer.received == ends.server_observer.sent);
}

TEST_CASE("an echo returns any number of segments and any metadata") {
  Ends ends(GENERATE(std::string("127.0.0.1:0"), "unix://" + Path(), "shm://" + Path()));
  const uint64_t seed = GENERATE(1, 2, 3);
  INFO("seed " << seed);
  Random random(seed);
  for (const size_t count : {1, 2, 62, 63, 64, 65, 300, 3'000, 65'535}) {
    const size_t largest = count > 1'000 ? 20 : 30'000;
    std::vector<Bytes> segments;
    for (size_t i = 0; i < count; ++i) {
      segments.push_back(RandomBytes(random, random.Below(3) == 0 ? 0 : random.Below(largest)));
    }
    const Bytes metadata = RandomBytes(random, random.Below(40'000));
    const auto echoed =
        ends.loop.Run(ends.client->Call(kEcho, Message(metadata, segments), IntoVectors(), Soon()));
    REQUIRE(echoed.status() == absl::OkStatus());
    CHECK(echoed->metadata == metadata);
    CHECK(Segments(*echoed) == segments);
  }
}

TEST_CASE("segments are received into the placement's destinations") {
  Ends ends("127.0.0.1:0");
  Random random(5);
  // Two halves of one array, with a guard between them.
  std::vector<std::byte> arena(30'000, std::byte{0x55});
  const std::vector<Bytes> segments{RandomBytes(random, 10), RandomBytes(random, 12'000)};
  const Placement placement = [&](std::span<const std::byte> metadata,
                                  std::span<const uint64_t> lengths) {
    CHECK(Bytes(metadata.begin(), metadata.end()) == Text("where"));
    CHECK(std::vector<uint64_t>(lengths.begin(), lengths.end()) ==
          std::vector<uint64_t>{10, 12'000});
    return StatusOr<std::vector<IncomingSegment>>(
        {{.bytes = std::span(arena).subspan(1, 10)},
         {.bytes = std::span(arena).subspan(12, 12'000)}});
  };
  const auto echoed =
      ends.loop.Run(ends.client->Call(kEcho, Message(Text("where"), segments), placement, Soon()));
  REQUIRE(echoed.ok());
  CHECK(echoed->segments[0].bytes.data() == arena.data() + 1);
  CHECK(echoed->segments[1].bytes.data() == arena.data() + 12);
  CHECK(Segments(*echoed) == segments);
  CHECK((arena[0] == std::byte{0x55} && arena[11] == std::byte{0x55}));
  CHECK(std::count(arena.begin() + 12'012, arena.end(), std::byte{0x55}) == 30'000 - 12'012);
}

TEST_CASE("over TCP and Unix sockets, segments of 4 KiB and more are never copied") {
  Ends ends(GENERATE(std::string("127.0.0.1:0"), "unix://" + Path()));
  Random random(6);
  for (const size_t size : {4'096, 4'097, 65'536, 262'145, 1'000'003, 8'388'608}) {
    INFO(size << " bytes");
    const std::vector<Bytes> segments{RandomBytes(random, size)};
    const StatusOr<IncomingMessage> echoed = ends.Echo(segments);
    REQUIRE(echoed.status() == absl::OkStatus());
    CHECK(Segments(*echoed) == segments);
  }
  CHECK(ends.client_observer.received >= 8'388'608);
  const auto check_copied = [&](uint64_t small_bytes) {
    for (const CountingObserver* end : {&ends.client_observer, &ends.server_observer}) {
      CHECK(end->copied == 0);
      CHECK(end->small_copied == small_bytes);
    }
  };
  check_copied(0);
  // Smaller payloads, once.
  for (const size_t size : {100, 4'095}) REQUIRE(ends.Echo({RandomBytes(random, size)}).ok());
  check_copied(4'195);
}

TEST_CASE("owners live until their bytes are written") {
  Ends ends("127.0.0.1:0");
  const auto sent = std::make_shared<const Bytes>(3'000'000, std::byte{1});
  const auto received = std::make_shared<Bytes>(sent->size());
  OutgoingMessage request;
  request.segments.push_back({.bytes = *sent, .owner = sent});
  const Placement placement = [&](auto, auto) {
    return StatusOr<std::vector<IncomingSegment>>({{.bytes = *received, .owner = received}});
  };
  auto echoed = ends.loop.Run(ends.client->Call(kEcho, std::move(request), placement, Soon()));
  REQUIRE(echoed.ok());
  CHECK(*received == *sent);
  CHECK(sent.use_count() == 1);
  CHECK(received.use_count() == 2);
  echoed = absl::CancelledError();
  CHECK(received.use_count() == 1);
}

TEST_CASE("a hundred calls in flight are answered in any order") {
  testing::Loop loop;
  Server server(loop.executor(), TestHello("server"), {}, nullptr);
  // Holds all requests, then answers the last first.
  constexpr size_t kCalls = 100;
  std::vector<std::unique_ptr<WaitList>> held;
  std::vector<size_t> answered;
  Method method = EchoMethod();
  method.handle = [&,
                   echo = method.handle](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
    const size_t mine = held.size();
    held.push_back(std::make_unique<WaitList>(loop.executor()));
    if (held.size() < kCalls) co_await held[mine]->Wait(Clock::time_point::max());
    answered.push_back(mine);
    if (mine > 0) held[mine - 1]->NotifyAll();
    co_return co_await echo(std::move(request));
  };
  server.Register(std::move(method));
  REQUIRE(server.Listen("127.0.0.1:0").ok());
  Client client(loop.executor(), server.address(), TestHello("client"), {}, nullptr);

  const auto call = [&](size_t i) -> awaitable<Status> {
    const std::vector<Bytes> segments{Bytes(i * 100, static_cast<std::byte>(i))};
    OutgoingMessage request = Message(Text(std::to_string(i)), segments);
    const auto response = co_await client.Call(kEcho, std::move(request), IntoVectors(), Soon());
    SIMURGH_CO_RETURN_IF_ERROR(response.status());
    CHECK(response->metadata == Text(std::to_string(i)));
    CHECK(Segments(*response) == segments);
    co_return absl::OkStatus();
  };
  std::vector<awaitable<Status>> calls;
  for (size_t i = 0; i < kCalls; ++i) calls.push_back(call(i));
  CHECK(loop.Run(WhenAll(std::move(calls))) == absl::OkStatus());
  std::vector<size_t> backwards(kCalls);
  std::iota(backwards.rbegin(), backwards.rend(), size_t{0});
  CHECK(answered == backwards);
}

TEST_CASE("both ends get the other's HELLO, and the handler the deadline") {
  testing::Loop loop;
  Server server(loop.executor(), TestHello("server"), {}, nullptr);
  Hello seen;
  Clock::time_point bounded{}, unbounded{};
  constexpr MethodId kBounded{.number = 5, .name = "bounded"};
  constexpr MethodId kUnbounded{.number = 6, .name = "unbounded"};
  const auto note = [&](Clock::time_point& destination) {
    return [&](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
      seen = *request.peer;
      destination = request.deadline;
      co_return OutgoingMessage();
    };
  };
  server.Register({.id = kBounded, .placement = NoSegments(), .handle = note(bounded)});
  server.Register({.id = kUnbounded, .placement = NoSegments(), .handle = note(unbounded)});
  REQUIRE(server.Listen("127.0.0.1:0").ok());
  Client client(loop.executor(), server.address(), TestHello("client"), {}, nullptr);
  CHECK(client.peer() == nullptr);
  const Clock::time_point deadline = Soon();
  REQUIRE(loop.Run(client.Call(kBounded, {}, NoSegments(), deadline)).ok());
  REQUIRE(loop.Run(client.Call(kUnbounded, {}, NoSegments(), Clock::time_point::max())).ok());
  CHECK(seen.role == "client");
  CHECK(seen.run == 7);
  REQUIRE(client.peer() != nullptr);
  CHECK(client.peer()->role == "server");
  CHECK(bounded > Clock::now());
  CHECK(bounded < deadline + std::chrono::seconds(20));
  CHECK(unbounded == Clock::time_point::max());
}

}  // namespace
}  // namespace simurgh::rpc
