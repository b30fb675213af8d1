#include <catch2/catch.hpp>

#include "rpc/token.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Encode;
using testing::Loop;
using testing::RawFrame;
using testing::RawPeer;

TEST_CASE("both ends refuse a HELLO that does not match and name the setting") {
  const auto token = std::make_shared<const Token>("for trusted clients, which learn it");
  Ends ends(EchoMethod().handle, {.token = token});
  Hello hello = TestHello("client");
  hello.configuration = "tables.0.dim = 16\n";
  const std::string what =
      "configurations differ: tables.0.dim = 8 (server/3), 16 (client/3); start all daemons";
  ends.client = ends.NewClient({.token = token}, hello);
  const Status error = ends.Call(kEcho).status();
  CHECK(absl::IsInvalidArgument(error));
  CHECK_THAT(std::string(error.message()), Catch::Contains(what));
  REQUIRE(ends.observer.errors.size() == 1);
  CHECK_THAT(ends.observer.errors[0], Catch::Contains(what));
  CHECK(ends.observer.connects == 0);
}

TEST_CASE("a refused client gets the ERROR even if it sent more than a HELLO") {
  Ends ends;
  Hello hello = TestHello("client");
  hello.cluster = "another";
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await RawPeer::Dial(ends.server->address()));
    const Bytes bytes = EncodeAll({testing::HelloFrame(hello), EchoRequest(1, {})});
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(bytes));
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame answer, co_await peer.Read());
    CHECK(answer.header.kind == FrameKind::kError);
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(talk()) == absl::OkStatus());
}

// Byte streams that break the protocol.
std::vector<Bytes> Garbage(bool after_hello) {
  Random random(3);
  std::vector<Bytes> all{RandomBytes(random, 1), RandomBytes(random, 10'000),
                         Text("GET / HTTP/1.1\r\nHost: here\r\n\r\n" + std::string(100, ' '))};
  const RawFrame request = EchoRequest(1, {Bytes(10), Bytes(20)});
  Bytes damaged = Encode(request);
  damaged[20] ^= std::byte{1};
  all.push_back(damaged);
  Bytes wrong_sum = Encode(request);
  wrong_sum[kHeaderBytes] = std::byte{11};
  all.push_back(wrong_sum);
  if (!after_hello) all.push_back(Encode(request));
  RawFrame response = request;
  response.header.kind = FrameKind::kResponse;
  all.push_back(Encode(response));
  RawFrame hello = testing::HelloFrame(TestHello("client"));
  if (after_hello) all.push_back(Encode(hello));
  hello.metadata.assign(40, std::byte{0xff});
  all.push_back(Encode(hello));
  return all;
}

TEST_CASE("a connection that breaks the protocol is closed, and others are served") {
  Ends ends;
  REQUIRE(ends.EchoWorks());
  const bool after_hello = GENERATE(false, true);
  size_t sent = 0;
  for (const Bytes& garbage : Garbage(after_hello)) {
    const auto attack = [&]() -> awaitable<void> {
      StatusOr<RawPeer> peer = co_await RawPeer::Dial(ends.server->address());
      REQUIRE(peer.ok());
      if (after_hello) {
        const Status hello = co_await peer->ShakeHands(TestHello("client"));
        REQUIRE(hello == absl::OkStatus());
      }
      (void)co_await peer->Send(garbage);
      if (garbage.size() < kHeaderBytes) {
        peer->Close();
      } else {
        co_await peer->ReadToEnd();
        ++sent;
      }
    };
    ends.loop.Run(attack());
    CHECK(ends.observer.errors.size() == sent);
    CHECK(ends.EchoWorks());
  }
}

TEST_CASE("a connection lost within a frame has no effect on others") {
  Ends ends;
  RawFrame request = EchoRequest(1, {Bytes(10), Bytes(200'000)});
  request.metadata = Bytes(100);
  const Bytes whole = Encode(request);
  for (const size_t length : {1, 63, 64, 70, 80, 100, 180, 190, 250, 100'000, 200'000}) {
    const auto visit = [&]() -> awaitable<void> {
      StatusOr<RawPeer> peer = co_await RawPeer::Dial(ends.server->address());
      const Status hello = co_await peer->ShakeHands(TestHello("client"));
      CHECK(hello == absl::OkStatus());
      (void)co_await peer->Send(Bytes(whole.begin(), whole.begin() + length));
      peer->Close();
    };
    ends.loop.Run(visit());
    CHECK(ends.EchoWorks());
  }
  CHECK(ends.observer.errors.empty());
}

TEST_CASE("a client closes the connection to a server that sends garbage, and reconnects") {
  Loop loop;
  RawServer raw(loop);
  const auto serve = [&]() -> awaitable<Status> {
    RawPeer first = co_await raw.Accept();
    const auto lost = co_await first.Read();
    CHECK(lost.ok());
    SIMURGH_CO_RETURN_IF_ERROR(co_await first.Send(Bytes(64, std::byte{0x5a})));
    RawPeer second = co_await raw.Accept();
    const auto request = co_await second.Read();
    co_return co_await second.Send(Encode(Response(request->header.request_id, {})));
  };
  const auto call = [&]() -> awaitable<Status> {
    const auto lost = co_await raw.client.Call(kEcho, {}, NoSegments(), Soon());
    CHECK(absl::IsUnavailable(lost.status()));
    CHECK_THAT(std::string(lost.status().message()), Catch::Contains("magic"));
    const auto answered = co_await raw.client.Call(kEcho, {}, NoSegments(), Soon());
    co_return answered.status();
  };
  CHECK(loop.Run(Both(serve(), call())) == absl::OkStatus());
}

TEST_CASE("draining answers running requests, refuses new ones and closes") {
  std::unique_ptr<WaitList> started, release;
  Ends ends([&](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
    started->NotifyAll();
    co_await release->Wait(Soon());
    co_return Message(std::move(request.message.metadata));
  });
  started = std::make_unique<WaitList>(ends.loop.executor());
  release = std::make_unique<WaitList>(ends.loop.executor());
  const std::string address = ends.server->address();
  bool drained = false;
  const auto call = [&]() -> awaitable<Status> {
    const auto answer = co_await ends.client->Call(kWork, Message(Text("x")), NoSegments(), Soon());
    CHECK_FALSE(drained);
    co_return answer.status();
  };
  const auto stop = [&]() -> awaitable<Status> {
    co_await started->Wait(Soon());
    StatusOr<RawPeer> rude = co_await RawPeer::Dial(address);
    CHECK(rude.ok());
    SIMURGH_CO_RETURN_IF_ERROR(co_await rude->ShakeHands(TestHello("client")));
    auto drain = [&]() -> awaitable<Status> {
      co_await ends.server->Drain(Soon());
      drained = true;
      co_return absl::OkStatus();
    };
    auto meanwhile = [&]() -> awaitable<Status> {
      const auto goaway = co_await rude->Read();
      CHECK(goaway->header.kind == FrameKind::kGoaway);
      SIMURGH_CO_RETURN_IF_ERROR(co_await rude->Send(Encode(EchoRequest(1, {}))));
      const auto refusal = co_await rude->Read();
      CHECK(refusal->header.kind == FrameKind::kError);
      CHECK(refusal->header.kind == FrameKind::kError);
      CHECK(refusal->header.code == static_cast<uint16_t>(absl::StatusCode::kUnavailable));
      const auto refused = co_await RawPeer::Dial(address);
      CHECK(absl::IsUnavailable(refused.status()));
      CHECK_FALSE(drained);
      release->NotifyAll();
      rude->Close();
      co_return absl::OkStatus();
    };
    co_return co_await Both(drain(), meanwhile());
  };
  CHECK(ends.loop.Run(Both(call(), stop())) == absl::OkStatus());
  CHECK(drained);
  CHECK(ends.observer.disconnects == 2);
  CHECK(ends.client->peer() == nullptr);
}

TEST_CASE("stopped and drained ends leave nothing in the event loop") {
  Ends ends;
  REQUIRE(ends.EchoWorks());
  ends.client->Stop();
  const auto drain = [&]() -> awaitable<void> { co_await ends.server->Drain(Soon()); };
  ends.loop.Run(drain());
  ends.loop.context().restart();
  ends.loop.context().run_for(std::chrono::seconds(10));
  CHECK(ends.loop.context().stopped());
}

TEST_CASE("draining sends nothing to a peer without HELLO") {
  Ends ends;
  const auto visit = [&]() -> awaitable<Status> {
    StatusOr<RawPeer> silent = co_await RawPeer::Dial(ends.server->address());
    CHECK(silent.ok());
    const auto known = co_await ends.client->Call(kEcho, {}, NoSegments(), Soon());
    CHECK(known.ok());  // So the server has accepted the silent peer, too.
    co_await ends.server->Drain(Soon());
    const auto nothing = co_await silent->Read();
    CHECK(absl::IsUnavailable(nothing.status()));
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(visit()) == absl::OkStatus());
  CHECK(ends.observer.errors.empty());
}

TEST_CASE("draining does not wait for an incomplete request") {
  ServerOptions options;
  options.stall_timeout = std::chrono::milliseconds(40);
  Ends ends(EchoMethod().handle, options);
  const bool hangs_up = GENERATE(true, false);
  const Clock::time_point deadline = Soon();
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await Enter(ends));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(
        EncodeAll({HeadOf(EchoRequest(1, {Bytes(300'000)})), EchoRequest(2, {})})));
    SIMURGH_CO_RETURN_IF_ERROR((co_await peer.Read()).status());  // So the head has arrived.
    if (hangs_up) peer.Close();
    co_await ends.server->Drain(deadline);
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(talk()) == absl::OkStatus());
  CHECK(Clock::now() < deadline);
  CHECK(ends.observer.disconnects == 1);
}

TEST_CASE("draining cancels requests at its deadline") {
  std::unique_ptr<Hang> hang;
  Ends ends([&](Request request) { return (*hang)(std::move(request)); });
  hang = std::make_unique<Hang>(ends.loop.executor());
  const auto call = [&]() -> awaitable<Status> {
    const auto answer = co_await ends.client->Call(kWork, {}, NoSegments(), Soon());
    CHECK(absl::IsUnavailable(answer.status()));
    co_return absl::OkStatus();
  };
  const auto stop = [&]() -> awaitable<Status> {
    co_await hang->started.Wait(Soon());
    co_await ends.server->Drain(Clock::now());
    CHECK(hang->cancelled == 1);
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(Both(call(), stop())) == absl::OkStatus());
}

TEST_CASE("a sender refuses frames above a limit, and a receiver closes the connection") {
  Ends ends(EchoMethod().handle, {.max_frame_bytes = 100'000});
  const auto send = [&](size_t size) {
    return ends.loop
        .Run(ends.client->Call(kEcho, Message({}, {Bytes(size)}), IntoVectors(), Soon()))
        .status();
  };
  CHECK(send(100'000 - 64 - 8) == absl::OkStatus());
  const Status error = send(100'000 - 64 - 7);
  CHECK(absl::IsInvalidArgument(error));
  CHECK_THAT(std::string(error.message()), Catch::Contains("max_frame_bytes is 100000"));

  // The same for a response to a client with lower limits.
  ends.client = ends.NewClient({.max_frame_bytes = 50'000});
  CHECK(absl::IsInternal(send(60'000)));
  CHECK(send(40'000) == absl::OkStatus());

  CHECK(ends.observer.closes.empty());
}

TEST_CASE("a frame above any limit closes the connection") {
  Ends ends(EchoMethod().handle,
            {.max_frame_bytes = 100'000, .max_metadata_bytes = 10'000, .max_segments = 3});
  const auto attack = [&](const RawFrame& request) -> awaitable<Status> {
    StatusOr<RawPeer> peer = co_await RawPeer::Dial(ends.server->address());
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer->ShakeHands(TestHello("client")));
    (void)co_await peer->Send(Encode(request));
    co_await peer->ReadToEnd();
    co_return absl::OkStatus();
  };
  const auto send = [&](const OutgoingMessage& message) {
    return ends.loop.Run(ends.client->Call(kEcho, message, IntoVectors(), Soon())).status();
  };
  RawFrame request;
  request.header.kind = FrameKind::kRequest;
  request.header.request_id = 1;
  const char* field = "";
  SECTION("total") {
    request.segments = {Bytes(100'000)};
    field = "payload_length";
  }
  SECTION("metadata") {
    CHECK(send(Message(Bytes(10'000))) == absl::OkStatus());
    request.metadata = Bytes(10'001);
    field = "metadata_length";
  }
  SECTION("segments") {
    CHECK(send(Message({}, std::vector<Bytes>(3))) == absl::OkStatus());
    request.segments.resize(4);
    field = "segment_count";
  }
  // A sender refuses.
  CHECK(absl::IsInvalidArgument(send(Message(request.metadata, request.segments))));
  CHECK(ends.loop.Run(attack(request)) == absl::OkStatus());
  CHECK(ends.observer.closes == std::vector{CloseReason::kMalformed});
  REQUIRE(ends.observer.errors.size() == 1);
  CHECK_THAT(ends.observer.errors[0], Catch::Contains(field));
  CHECK(ends.EchoWorks());
}

TEST_CASE("connections above the limit are refused, requests wait") {
  std::unique_ptr<WaitList> second_came, release;
  int came = 0;
  ServerOptions options;
  options.max_connections = 1;
  options.max_requests_per_connection = 2;
  Ends ends(
      [&](Request) -> awaitable<StatusOr<OutgoingMessage>> {
        if (++came == 2) second_came->NotifyAll();
        co_await release->Wait(Soon());
        co_return OutgoingMessage();
      },
      options);
  second_came = std::make_unique<WaitList>(ends.loop.executor());
  release = std::make_unique<WaitList>(ends.loop.executor());
  const auto call = [&]() -> awaitable<Status> {
    const auto answer = co_await ends.client->Call(kWork, {}, NoSegments(), Soon());
    co_return answer.status();
  };
  const auto let_go = [&]() -> awaitable<Status> {
    co_await second_came->Wait(Soon());
    const auto other = ends.NewClient();
    const auto refused =
        co_await other->Call(kEcho, {}, NoSegments(), In(std::chrono::milliseconds(500)));
    CHECK(absl::IsUnavailable(refused.status()));
    CHECK_THAT(std::string(refused.status().message()),
               Catch::Contains("max_connections: the server has 1, the maximum is 1"));
    CHECK(came == 2);
    release->NotifyAll();
    while (came < 4) co_await asio::post(asio::use_awaitable);
    release->NotifyAll();
    co_return absl::OkStatus();
  };
  std::vector<awaitable<Status>> tasks;
  for (int i = 0; i < 4; ++i) tasks.push_back(call());
  tasks.push_back(let_go());
  CHECK(ends.loop.Run(WhenAll(std::move(tasks))) == absl::OkStatus());
  CHECK(came == 4);
}

}  // namespace
}  // namespace simurgh::rpc
