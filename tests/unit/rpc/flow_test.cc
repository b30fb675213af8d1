// Large and small messages together, corking, the request window, and other protocol versions.

#include <algorithm>
#include <numeric>

#include <catch2/catch.hpp>

#include "rpc/control.h"
#include "rpc/frame_generated.h"
#include "rpc/timers.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Encode;
using testing::Loop;
using testing::RawFrame;
using testing::RawPeer;

// The HELLO of a release with the protocol version after this one.
RawFrame HelloOfNextVersion() {
  const Hello hello = TestHello("next release");
  flatbuffers::FlatBufferBuilder builder;
  const auto cluster = builder.CreateString(hello.cluster);
  const auto role = builder.CreateString(hello.role);
  wire::HelloBuilder table(builder);
  table.add_protocol(kProtocolVersion + 1);
  table.add_cluster(cluster);
  table.add_role(role);
  table.add_max_frame_bytes(uint64_t{1} << 30);
  builder.Finish(table.Finish());
  const OutgoingSegment metadata = TakeMetadata(builder);
  RawFrame frame;
  frame.header.kind = FrameKind::kHello;
  frame.metadata.assign(metadata.bytes.begin(), metadata.bytes.end());
  return frame;
}

TEST_CASE("a server refuses a client of another protocol version and names both versions") {
  Ends ends;
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await RawPeer::Dial(ends.server->address()));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(HelloOfNextVersion())));
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame answer, co_await peer.Read());
    REQUIRE(answer.header.kind == FrameKind::kError);
    Status refusal;
    SIMURGH_CO_RETURN_IF_ERROR(DecodeError(answer.header, answer.metadata, refusal));
    CHECK(absl::IsInvalidArgument(refusal));
    CHECK_THAT(std::string(refusal.message()),
               Catch::StartsWith("protocol: the peer has version 2, this end has version 1"));
    co_await peer.ReadToEnd();
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(talk()) == absl::OkStatus());
  CHECK(ends.observer.closes == std::vector{CloseReason::kRefused});
}

TEST_CASE("a client refuses a server of another protocol version") {
  Loop loop;
  RawServer raw(loop);
  const auto serve = [&]() -> awaitable<Status> {
    RawPeer peer = co_await raw.Accept(HelloOfNextVersion());
    co_await peer.ReadToEnd();
    co_return absl::OkStatus();
  };
  const auto call = [&]() -> awaitable<Status> {
    const Status refused = (co_await raw.client.Call(kEcho, {}, IntoVectors(), Soon())).status();
    CHECK(absl::IsInvalidArgument(refused));
    CHECK_THAT(std::string(refused.message()), Catch::Contains("protocol"));
    co_return absl::OkStatus();
  };
  CHECK(loop.Run(Both(serve(), call())) == absl::OkStatus());
}

TEST_CASE("a small call passes a large one") {
  Ends ends;
  REQUIRE(ends.EchoWorks());
  std::vector<std::string> ended;
  const auto call = [&](std::string name, size_t bytes) -> awaitable<Status> {
    const auto result =
        co_await ends.client->Call(kEcho, Message({}, {Bytes(bytes)}), IntoVectors(), Soon());
    ended.push_back(std::move(name));
    co_return result.status();
  };
  CHECK(ends.loop.Run(Both(call("large", 64'000'000), call("small", 10))) == absl::OkStatus());
  CHECK(ended == std::vector<std::string>{"small", "large"});
}

TEST_CASE("a small call passes a large answer") {
  const auto block = std::make_shared<const Bytes>(64'000'000);
  Ends ends([&](Request) -> awaitable<StatusOr<OutgoingMessage>> {
    OutgoingMessage large;
    large.segments.push_back({*block, block});
    co_return large;
  });
  REQUIRE(ends.EchoWorks());
  WaitList payload(ends.loop.executor());
  const Placement destination = [&](auto metadata, auto lengths) {
    payload.NotifyAll();
    return IntoVectors()(metadata, lengths);
  };
  std::vector<std::string> ended;
  const auto large = [&]() -> awaitable<Status> {
    const auto answer = co_await ends.client->Call(kWork, {}, destination, Soon());
    ended.emplace_back("large");
    SIMURGH_CO_RETURN_IF_ERROR(answer.status());
    CHECK(answer->segments.at(0).bytes.size() == block->size());
    co_return absl::OkStatus();
  };
  const auto small = [&]() -> awaitable<Status> {
    CHECK(co_await payload.Wait(Soon()));
    const auto answer =
        co_await ends.client->Call(kEcho, Message({}, {Bytes(10)}), IntoVectors(), Soon());
    ended.emplace_back("small");
    co_return answer.status();
  };
  CHECK(ends.loop.Run(Both(large(), small())) == absl::OkStatus());
  CHECK(ended == std::vector<std::string>{"small", "large"});
}

// Records the bytes of each write.
struct PiecesObserver : Observer {
  void OnBytesSent(uint64_t bytes) override {
    if (bytes != 0) pieces.push_back(bytes);
  }
  std::vector<uint64_t> pieces;
};

TEST_CASE("calls after answers leave together, large ones in halves of those in flight") {
  constexpr size_t kInFlight = 8;
  Loop loop;
  RawServer raw(loop);
  PiecesObserver observer;
  Client client(loop.executor(), raw.listener->address(), TestHello("client"), {}, &observer);
  const bool large = GENERATE(false, true);
  const size_t payload = large ? 20'000 : 100;
  const auto serve = [&]() -> awaitable<Status> {
    RawPeer peer = co_await raw.Accept();
    for (int round = 0; round < 2; ++round) {
      std::vector<RawFrame> answers;
      while (answers.size() < kInFlight) {
        SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame request, co_await peer.Read());
        answers.push_back(Response(request.header.request_id, {}));
      }
      if (round == 0) observer.pieces.clear();
      // Together, so that the client reads all without waiting.
      SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(EncodeAll(answers)));
    }
    co_return absl::OkStatus();
  };
  const auto call_twice = [&]() -> awaitable<Status> {
    for (int round = 0; round < 2; ++round) {
      const auto answer =
          co_await client.Call(kEcho, Message({}, {Bytes(payload)}), IntoVectors(), Soon());
      SIMURGH_CO_RETURN_IF_ERROR(answer.status());
    }
    co_return absl::OkStatus();
  };
  std::vector<awaitable<Status>> tasks;
  tasks.push_back(serve());
  for (size_t i = 0; i < kInFlight; ++i) tasks.push_back(call_twice());
  CHECK(loop.Run(WhenAll(std::move(tasks))) == absl::OkStatus());
  const uint64_t all = kInFlight * Encode(EchoRequest(1, {Bytes(payload)})).size();
  CHECK(std::reduce(observer.pieces.begin(), observer.pieces.end()) == all);
  if (large) {
    // Smaller ones on slow machines.
    CHECK(std::ranges::max(observer.pieces) <= all / 2);
  } else {
    CHECK(observer.pieces.size() == 1);
  }
}

TEST_CASE("answers to requests that arrive together leave together, unless handlers are slow") {
  constexpr uint64_t kRequests = 8;
  const bool slow = GENERATE(false, true);
  const Bytes payload(slow ? 20'000 : 3'000);
  Loop loop;
  PiecesObserver observer;
  Server server(loop.executor(), TestHello("server"), {}, &observer);
  Method method = EchoMethod();
  method.handle = [slow, echo = method.handle](Request request) {
    const Clock::time_point enough = Clock::now() + std::chrono::microseconds(slow ? 200 : 0);
    while (Clock::now() < enough) continue;
    return echo(std::move(request));
  };
  server.Register(std::move(method));
  REQUIRE(server.Listen("127.0.0.1:0") == absl::OkStatus());
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await RawPeer::Dial(server.address()));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.ShakeHands(TestHello("client")));
    observer.pieces.clear();
    std::vector<RawFrame> requests;
    for (uint64_t id = 1; id <= kRequests; ++id) requests.push_back(EchoRequest(id, {payload}));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(EncodeAll(requests)));
    for (uint64_t id = 1; id <= kRequests; ++id) {
      SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame answer, co_await peer.Read());
      CHECK(answer.header.request_id == id);
    }
    co_return absl::OkStatus();
  };
  CHECK(loop.Run(talk()) == absl::OkStatus());
  // A handler that the machine interrupts is slow, too.
  for (int again = 0; !slow && again < 100 && observer.pieces.front() < 16'384; ++again) {
    CHECK(loop.Run(talk()) == absl::OkStatus());
  }
  if (slow) {
    CHECK(observer.pieces.size() == kRequests);
  } else {
    CHECK(observer.pieces.front() >= 16'384);
  }
  const uint64_t sent = std::reduce(observer.pieces.begin(), observer.pieces.end());
  const uint64_t answers = kRequests * Encode(EchoRequest(1, {payload})).size();
  CHECK(sent >= answers);
  CHECK(sent <= answers + kHeaderBytes + kMaxPaddingBytes);  // The HELLO promised small data.
}

TEST_CASE("requests beyond the window wait for answers, and all succeed") {
  ServerOptions options;
  options.max_request_bytes_per_connection = 100'000;
  size_t at_once = 0, most = 0;
  Loop* loop = nullptr;
  const auto work = [&](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
    most = std::max(most, ++at_once);
    for (int i = 0; i < 20; ++i) co_await asio::post(loop->context(), asio::use_awaitable);
    --at_once;
    co_return OutgoingMessage();
  };
  Ends ends(work, options);
  loop = &ends.loop;
  std::vector<awaitable<Status>> calls;
  const auto call = [&](size_t bytes) -> awaitable<Status> {
    const auto result =
        co_await ends.client->Call(kWork, Message({}, {Bytes(bytes)}), NoSegments(), Soon());
    co_return result.status();
  };
  for (int i = 0; i < 20; ++i) calls.push_back(call(30'000));
  calls.push_back(call(1'000'000));  // Larger than the window.
  for (int i = 0; i < 20; ++i) calls.push_back(call(30'000));
  CHECK(ends.loop.Run(WhenAll(std::move(calls))) == absl::OkStatus());
  CHECK(most == 3);
  CHECK(ends.observer.errors.empty());
}

TEST_CASE("a call that waits for the window keeps its deadline") {
  ServerOptions options;
  options.max_request_bytes_per_connection = 100'000;
  std::unique_ptr<Hang> hang;
  Ends ends([&](Request request) { return (*hang)(std::move(request)); }, options);
  hang = std::make_unique<Hang>(ends.loop.executor());
  const auto call = [&](std::chrono::milliseconds patience) -> awaitable<Status> {
    const auto result =
        co_await ends.client->Call(kWork, Message({}, {Bytes(80'000)}), NoSegments(), In(patience));
    CHECK(absl::IsDeadlineExceeded(result.status()));
    co_return absl::OkStatus();
  };
  const auto second = [&]() -> awaitable<Status> {
    const auto result = co_await ends.client->Call(kWork, Message({}, {Bytes(80'000)}),
                                                   NoSegments(), In(std::chrono::milliseconds(50)));
    CHECK(absl::IsDeadlineExceeded(result.status()));
    co_return absl::OkStatus();
  };
  REQUIRE(ends.EchoWorks());
  CHECK(ends.loop.Run(Both(call(std::chrono::milliseconds(200)), second())) == absl::OkStatus());
  // The answer to CANCEL freed the first one's share.
  const auto echo =
      ends.loop.Run(ends.client->Call(kEcho, Message({}, {Bytes(90'000)}), IntoVectors(), Soon()));
  CHECK(echo.status() == absl::OkStatus());
}

TEST_CASE("a call that gets the window when its connection ends fails at once and is not sent") {
  Loop loop;
  RawServer raw(loop);
  RawFrame last;
  SECTION("by something malformed") { last.header.request_id = 7; }
  SECTION("by GOAWAY") { last.header.kind = FrameKind::kGoaway; }
  const auto call = [&]() -> awaitable<StatusOr<IncomingMessage>> {
    co_return co_await raw.client.Call(kWork, Message({}, {Bytes(80'000)}), NoSegments(), Soon());
  };
  const auto first = [&]() -> awaitable<Status> { co_return (co_await call()).status(); };
  const auto second = [&]() -> awaitable<Status> {
    const Status status = (co_await call()).status();
    CHECK(absl::IsUnavailable(status));
    co_return absl::OkStatus();
  };
  const auto serve = [&]() -> awaitable<Status> {
    RawFrame hello;
    const OutgoingSegment metadata = EncodeHello(TestHello("server"), {}, 100'000);
    hello.metadata.assign(metadata.bytes.begin(), metadata.bytes.end());
    RawPeer peer = co_await raw.Accept(std::move(hello));
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame request, co_await peer.Read());
    // Together, so that the client reads both before the second call resumes.
    const RawFrame answer = Response(request.header.request_id, {});
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(EncodeAll({answer, last})));
    CHECK(absl::IsUnavailable((co_await peer.Read()).status()));
    co_return absl::OkStatus();
  };
  std::vector<awaitable<Status>> tasks;
  tasks.push_back(serve());
  tasks.push_back(first());
  tasks.push_back(second());
  CHECK(loop.Run(WhenAll(std::move(tasks))) == absl::OkStatus());
}

TEST_CASE("a client that ignores the window loses its connection") {
  ServerOptions options;
  options.max_request_bytes_per_connection = 100'000;
  std::unique_ptr<Hang> hang;
  Ends ends([&](Request request) { return (*hang)(std::move(request)); }, options);
  hang = std::make_unique<Hang>(ends.loop.executor());
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await RawPeer::Dial(ends.server->address()));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.ShakeHands(TestHello("greedy")));
    for (uint64_t id = 1; id <= 2; ++id) {
      RawFrame request = EchoRequest(id, {Bytes(80'000)});
      request.header.method = kWork.number;
      SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(request)));
    }
    co_await peer.ReadToEnd();
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(talk()) == absl::OkStatus());
  REQUIRE(ends.observer.errors.size() == 1);
  CHECK_THAT(ends.observer.errors[0], Catch::Contains("window"));
  CHECK(ends.EchoWorks());
}

}  // namespace
}  // namespace simurgh::rpc
