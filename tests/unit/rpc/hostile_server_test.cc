// Misbehaving servers can do no more than fail calls.

#include <functional>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Encode;
using testing::RawFrame;
using testing::RawPeer;

// A client whose server the test controls.
struct HostileServer {
  // Handles the client's request.
  using Play = std::function<awaitable<Status>(RawPeer&, const RawFrame& request)>;

  explicit HostileServer(ClientOptions options = {})
      : client(loop.executor(), listener->address(), TestHello("client"), options, &observer) {}

  // The result of a call.
  Status Call(const Play& play, Placement placement = IntoVectors()) {
    Status end;
    const auto serve = [&]() -> awaitable<Status> {
      auto socket = co_await listener->Accept();
      RawPeer peer(*std::move(socket));
      SIMURGH_CO_RETURN_IF_ERROR(co_await peer.ShakeHands(TestHello("server")));
      const auto request = co_await peer.Read();
      co_return co_await play(peer, *request);
    };
    const auto call = [&]() -> awaitable<Status> {
      end = (co_await client.Call(kEcho, {}, std::move(placement), Soon())).status();
      co_return absl::OkStatus();
    };
    CHECK(loop.Run(Both(serve(), call())) == absl::OkStatus());
    return end;
  }

  testing::Loop loop;
  RecordingObserver observer;
  std::unique_ptr<Listener> listener =
      *Listener::Open(loop.executor(), *ParseAddress("127.0.0.1:0"));
  Client client;
};

TEST_CASE("a client closes the connection to a server that stops within an answer", "[abuse]") {
  HostileServer server({.stall_timeout = std::chrono::milliseconds(40)});
  RawFrame beside;
  beside.header.kind = FrameKind::kPadding;
  const auto in_a_frame = [](RawPeer& peer, const RawFrame& request) -> awaitable<Status> {
    const Bytes answer = Encode(Response(request.header.request_id, {Bytes(100'000)}));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Bytes(answer.begin(), answer.end() - 1)));
    co_await peer.ReadToEnd();
    co_return absl::OkStatus();
  };
  const auto in_chunks = [&](RawPeer& peer, const RawFrame& request) -> awaitable<Status> {
    const RawFrame answer = Response(request.header.request_id, {Bytes(100'000)});
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(HeadOf(answer))));
    const Clock::time_point deadline = Soon();
    Status sent;
    while (sent.ok() && Clock::now() < deadline) {
      Waiter pause(server.loop.executor(), In(std::chrono::milliseconds(2)));
      CHECK_FALSE(co_await pause.Wait());
      sent = co_await peer.Send(Encode(beside));
    }
    co_return absl::OkStatus();
  };
  HostileServer::Play play = in_chunks;
  SECTION("in a frame") { play = in_a_frame; }
  SECTION("between chunks, whatever padding it sends") {}
  SECTION("between chunks, whatever other answers it sends") { beside = Response(99, {}); }
  const Status lost = server.Call(play);
  CHECK(absl::IsUnavailable(lost));
  CHECK_THAT(std::string(lost.message()), Catch::Contains("stopped within a message"));
  CHECK(server.observer.closes == std::vector{CloseReason::kStalled});
}

TEST_CASE("a second answer to a call closes the connection before anything is written", "[abuse]") {
  HostileServer server;
  Bytes destination(5'000);
  const auto answer_twice = [&](RawPeer& peer, const RawFrame&) -> awaitable<Status> {
    RawFrame head = Response(1, {destination});
    head.header.flags = kFlagChunked;
    RawFrame chunk = Response(1, {Bytes(destination.size(), std::byte{2})});
    chunk.header.kind = FrameKind::kChunk;
    const Bytes whole = Encode(Response(1, {Bytes(destination.size(), std::byte{1})}));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(EncodeAll({head})));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(whole));
    (void)co_await peer.Send(Encode(chunk));
    co_return absl::OkStatus();
  };
  const Placement there = [&](auto, auto) {
    return StatusOr<std::vector<IncomingSegment>>({{.bytes = destination}});
  };
  CHECK(absl::IsUnavailable(server.Call(answer_twice, there)));
  CHECK(server.observer.closes == std::vector{CloseReason::kMalformed});
  CHECK((destination == Bytes(destination.size())));
}

}  // namespace
}  // namespace simurgh::rpc
