#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "rpc/async.h"
#include "rpc/connection.h"
#include "rpc/timers.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Encode;
using testing::Loop;
using testing::RawFrame;
using testing::RawPeer;

TEST_CASE("a handler's error arrives with its code and message") {
  Ends ends([](Request) -> awaitable<StatusOr<OutgoingMessage>> {
    co_return absl::FailedPreconditionError("not the owner of bucket 9");
  });
  const Status error = ends.Call(kWork).status();
  CHECK(error.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(error.message() == "not the owner of bucket 9");
}

TEST_CASE("an exception of a handler is an INTERNAL error, and the connection stays open") {
  Ends ends([](Request) -> awaitable<StatusOr<OutgoingMessage>> {
    throw std::runtime_error("a bug");
    co_return OutgoingMessage();
  });
  const Status error = ends.Call(kWork).status();
  CHECK(absl::IsInternal(error));
  CHECK_THAT(std::string(error.message()), Catch::Contains("a bug"));
  CHECK(ends.EchoWorks());
  CHECK(ends.observer.disconnects == 0);
}

TEST_CASE("an unknown method is UNIMPLEMENTED") {
  Ends ends;
  const Status error = ends.Call({.number = 99, .name = "none"}).status();
  CHECK(absl::IsUnimplemented(error));
}

TEST_CASE("a refused placement is answered and its payload skipped") {
  Loop loop;
  Server server(loop.executor(), TestHello("server"), {}, nullptr);
  server.Register(EchoMethod());
  Method picky = EchoMethod();
  picky.id = kWork;
  bool throws = false;
  picky.placement = [&](auto, auto) -> StatusOr<std::vector<IncomingSegment>> {
    if (throws) throw std::runtime_error("placement bug");
    return absl::OutOfRangeError("no room");
  };
  server.Register(std::move(picky));
  REQUIRE(server.Listen("127.0.0.1:0").ok());
  Client client(loop.executor(), server.address(), TestHello("client"), {}, nullptr);
  const size_t size = GENERATE(1, 5'000, 3'000'000);
  const auto call = [&](const MethodId& method, Placement placement) {
    return loop.Run(client.Call(method, Message({}, {Bytes(size)}), std::move(placement), Soon()));
  };
  const Status refused = call(kWork, IntoVectors()).status();
  CHECK(refused.code() == absl::StatusCode::kOutOfRange);
  throws = true;
  CHECK(absl::IsInternal(call(kWork, IntoVectors()).status()));

  // The same at the client, for responses.
  CHECK(absl::IsInvalidArgument(call(kEcho, NoSegments()).status()));
  const Placement wrong = [](auto, auto) {
    return StatusOr<std::vector<IncomingSegment>>(std::vector<IncomingSegment>(1));
  };
  CHECK(absl::IsInternal(call(kEcho, wrong).status()));
  CHECK(call(kEcho, IntoVectors()).ok());
}

TEST_CASE("a deadline ends the call at the client and the handler at the server") {
  std::unique_ptr<Hang> hang;
  Ends ends([&](Request request) { return (*hang)(std::move(request)); });
  hang = std::make_unique<Hang>(ends.loop.executor());
  REQUIRE(ends.EchoWorks());
  const Status error = ends.Call(kWork, In(std::chrono::milliseconds(500))).status();
  CHECK(absl::IsDeadlineExceeded(error));
  const auto handler_ended = [&]() -> awaitable<bool> {
    if (hang->cancelled == 0) co_await hang->ended.Wait(Soon());
    co_return hang->cancelled == 1;
  };
  CHECK(ends.loop.Run(handler_ended()));
  CHECK(ends.EchoWorks());
  const Status late = ends.Call(kEcho, Clock::now()).status();
  CHECK(absl::IsDeadlineExceeded(late));
}

TEST_CASE("a server cancels expired requests without a CANCEL") {
  std::unique_ptr<Hang> hang;
  Ends ends([&](Request request) { return (*hang)(std::move(request)); });
  hang = std::make_unique<Hang>(ends.loop.executor());
  constexpr uint32_t kNone = 0, kHour = 3'600'000;
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await Enter(ends));
    const Watchdog patience(ends.loop.executor(), Soon(), [&peer] { peer.Close(); });
    std::vector<RawFrame> requests;
    for (const uint32_t deadline_ms : {kNone, kHour, 100u, 50u}) {
      RawFrame request = EchoRequest(requests.size() + 1, {});
      request.header.method = kWork.number;
      request.header.deadline_ms = deadline_ms;
      requests.push_back(std::move(request));
    }
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(EncodeAll(requests)));
    std::vector<uint64_t> ended;
    while (ended.size() < 2) {
      SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame answer, co_await peer.Read());
      CHECK(answer.header.kind == FrameKind::kError);
      CHECK(answer.header.code == static_cast<uint16_t>(absl::StatusCode::kDeadlineExceeded));
      ended.push_back(answer.header.request_id);
    }
    std::ranges::sort(ended);
    CHECK(ended == std::vector<uint64_t>{3, 4});
    CHECK(hang->cancelled == 2);
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(talk()) == absl::OkStatus());
}

TEST_CASE("a throttled request keeps its deadline") {
  ServerOptions options;
  options.max_requests_per_connection = 1;
  constexpr uint32_t kDeadlineMs = 20;
  std::vector<bool> late;
  std::unique_ptr<WaitList> release;
  Ends ends(
      [&](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
        late.push_back(request.deadline <= Clock::now());
        if (late.size() == 1) co_await release->Wait(Soon());
        co_return OutgoingMessage();
      },
      options);
  release = std::make_unique<WaitList>(ends.loop.executor());
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await Enter(ends));
    const Watchdog patience(ends.loop.executor(), Soon(), [&peer] { peer.Close(); });
    RawFrame first = EchoRequest(1, {});
    RawFrame second = EchoRequest(2, {});
    first.header.method = second.header.method = kWork.number;
    second.header.deadline_ms = kDeadlineMs;
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(EncodeAll({first, second})));
    co_await UntilThrottled(ends.observer, ThrottleReason::kRequests);
    Waiter past(ends.loop.executor(), In(std::chrono::milliseconds(2 * kDeadlineMs)));
    co_await past.Wait();
    release->NotifyAll();
    SIMURGH_CO_RETURN_IF_ERROR((co_await peer.Read()).status());
    co_return (co_await peer.Read()).status();
  };
  CHECK(ends.loop.Run(talk()) == absl::OkStatus());
  CHECK(late == std::vector{false, true});
}

TEST_CASE("a call without a deadline waits for a connection within its patience") {
  Loop loop;
  // No server listens on the lowest port.
  Client client(loop.executor(), "tcp://127.0.0.1:1", TestHello("client"), {}, nullptr);
  CallOptions options(Clock::time_point::max());
  options.patience = std::chrono::milliseconds(50);
  const auto answer = loop.Run(client.Call(kEcho, {}, IntoVectors(), options));
  CHECK(absl::IsUnavailable(answer.status()));
  CHECK_THAT(std::string(answer.status().message()),
             Catch::Contains("cannot reach") &&
                 Catch::EndsWith("; start its daemon, or correct the address"));
}

TEST_CASE("cancelling the caller cancels the handler") {
  std::unique_ptr<Hang> hang;
  Ends ends([&](Request request) { return (*hang)(std::move(request)); });
  hang = std::make_unique<Hang>(ends.loop.executor());
  asio::cancellation_signal cancel;
  Status result;
  const auto call = [&]() -> awaitable<void> {
    const auto response =
        co_await ends.client->Call(kWork, Message({}), IntoVectors(), Clock::time_point::max());
    result = response.status();
  };
  asio::co_spawn(ends.loop.context(), call(),
                 asio::bind_cancellation_slot(cancel.slot(), asio::detached));
  const auto watch = [&]() -> awaitable<bool> {
    co_await hang->started.Wait(Soon());
    cancel.emit(asio::cancellation_type::terminal);
    co_return co_await hang->ended.Wait(Soon());
  };
  CHECK(ends.loop.Run(watch()));
  CHECK(absl::IsCancelled(result));
  CHECK(hang->cancelled == 1);
  CHECK(ends.EchoWorks());
}

TEST_CASE("a lost client cancels its requests at the server") {
  std::unique_ptr<Hang> hang;
  Ends ends([&](Request request) { return (*hang)(std::move(request)); });
  hang = std::make_unique<Hang>(ends.loop.executor());
  Status result;
  const auto call = [&]() -> awaitable<void> {
    const auto response = co_await ends.client->Call(kWork, Message({}), IntoVectors(), Soon());
    result = response.status();
  };
  asio::co_spawn(ends.loop.context(), call(), asio::detached);
  const auto watch = [&]() -> awaitable<bool> {
    co_await hang->started.Wait(Soon());
    ends.client->Stop();
    co_return co_await hang->ended.Wait(Soon());
  };
  CHECK(ends.loop.Run(watch()));
  CHECK(absl::IsCancelled(result));
  CHECK(absl::IsCancelled(ends.Call(kEcho).status()));
}

TEST_CASE("a call fails with UNAVAILABLE when its connection is lost") {
  Loop loop;
  RawServer raw(loop);
  const auto serve = [&]() -> awaitable<Status> {
    RawPeer peer = co_await raw.Accept();
    const auto request = co_await peer.Read();
    CHECK(request.ok());
    peer.Close();
    co_return absl::OkStatus();
  };
  const auto call = [&]() -> awaitable<Status> {
    const auto response = co_await raw.client.Call(kEcho, Message({}), IntoVectors(), Soon());
    co_return response.status();
  };
  const Status error = loop.Run(Both(serve(), call()));
  CHECK(absl::IsUnavailable(error));
  CHECK_THAT(std::string(error.message()), Catch::Contains(raw.listener->address()));
}

TEST_CASE(
    "after a deadline nothing is written to the destinations, and the connection stays open") {
  Loop loop;
  RawServer raw(loop);
  Bytes destination(1'000'000, std::byte{0});
  const auto serve = [&]() -> awaitable<Status> {
    RawPeer peer = co_await raw.Accept();
    const auto first = co_await peer.Read();
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(Response(first->header.request_id, {}))));
    const auto request = co_await peer.Read();
    const Bytes response =
        Encode(Response(request->header.request_id, {Bytes(destination.size(), std::byte{1})}));
    const auto middle = response.begin() + 300'000;
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Bytes(response.begin(), middle)));
    const auto cancel = co_await peer.Read();
    CHECK(cancel->header.kind == FrameKind::kCancel);
    CHECK(cancel->header.request_id == request->header.request_id);
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Bytes(middle, response.end())));
    const auto second = co_await peer.Read();
    CHECK(second->header.kind == FrameKind::kRequest);
    co_return co_await peer.Send(Encode(Response(second->header.request_id, {Bytes(5)})));
  };
  const auto call = [&]() -> awaitable<Status> {
    const Placement there = [&](auto, auto) {
      return StatusOr<std::vector<IncomingSegment>>({{.bytes = destination}});
    };
    const auto connected = co_await raw.client.Call(kEcho, Message({}), NoSegments(), Soon());
    CHECK(connected.ok());
    const auto late =
        co_await raw.client.Call(kEcho, Message({}), there, In(std::chrono::milliseconds(500)));
    CHECK(absl::IsDeadlineExceeded(late.status()));
    const Bytes then = destination;
    const auto next = co_await raw.client.Call(kEcho, Message({}), IntoVectors(), Soon());
    CHECK(next.status() == absl::OkStatus());
    CHECK(destination == then);
    CHECK(std::count(destination.begin(), destination.end(), std::byte{1}) < 300'000);
    co_return absl::OkStatus();
  };
  CHECK(loop.Run(Both(serve(), call())) == absl::OkStatus());
}

TEST_CASE(
    "a call that ends while its request is written closes the connection only without owners") {
  Loop loop;
  RawServer raw(loop);
  const Bytes borrowed(64'000'000);  // More than the socket buffers hold.
  const bool owned = GENERATE(false, true);
  asio::cancellation_signal cancel;
  const auto call = [&]() -> awaitable<void> {
    OutgoingMessage request;
    request.segments.push_back({.bytes = borrowed});
    if (owned) request.segments[0].owner = std::make_shared<int>();
    const auto given_up = co_await raw.client.Call(kEcho, std::move(request), IntoVectors(),
                                                   Clock::time_point::max());
    CHECK(absl::IsCancelled(given_up.status()));
    CHECK((raw.client.peer() != nullptr) == owned);
  };
  asio::co_spawn(loop.context(), call(),
                 asio::bind_cancellation_slot(cancel.slot(), asio::detached));
  const auto serve = [&]() -> awaitable<bool> {
    RawPeer peer = co_await raw.Accept();
    Bytes header(kHeaderBytes);
    const Status begun = co_await peer.Fill(header);
    CHECK(begun == absl::OkStatus());
    cancel.emit(asio::cancellation_type::terminal);
    StatusOr<RawFrame> frame = co_await peer.ReadAfter(header);
    uint64_t arrived = 0;
    while (frame.ok() && frame->header.kind != FrameKind::kCancel) {
      for (const Bytes& segment : frame->segments) arrived += segment.size();
      frame = co_await peer.Read();
    }
    CHECK(arrived < borrowed.size());
    co_return frame.ok();
  };
  CHECK(loop.Run(serve()) == owned);
}

// Answers a request whose head has been read.
RawFrame Refusal(uint64_t id) {
  const OutgoingFrame error = ErrorFrame(id, absl::UnimplementedError("no such method"));
  RawFrame frame;
  frame.header = error.header;
  const auto bytes = error.message.metadata.bytes;
  frame.metadata.assign(bytes.begin(), bytes.end());
  return frame;
}

TEST_CASE("a call answered while its request is written returns when its bytes are unused") {
  Loop loop;
  RawServer raw(loop);
  const bool goes_away = GENERATE(false, true);
  constexpr std::byte kSent{1}, kReused{2};
  Bytes borrowed(64'000'000, kSent);
  bool returned = false;
  const auto call = [&]() -> awaitable<Status> {
    OutgoingMessage request;
    request.segments.push_back({.bytes = borrowed});
    const auto refused = co_await raw.client.Call(kEcho, std::move(request), IntoVectors(), Soon());
    returned = true;
    CHECK(absl::IsUnimplemented(refused.status()));
    std::ranges::fill(borrowed, kReused);
    if (!goes_away) raw.client.Stop();
    co_return absl::OkStatus();
  };
  const auto serve = [&]() -> awaitable<Status> {
    RawPeer peer = co_await raw.Accept();
    const Watchdog patience(loop.executor(), Soon(), [&peer] { peer.Close(); });
    Bytes some(kHeaderBytes);
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Fill(some));
    std::vector<RawFrame> frames{Refusal(1)};
    if (goes_away) frames.emplace_back().header.kind = FrameKind::kGoaway;
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(EncodeAll(frames)));
    while (goes_away && raw.client.peer() != nullptr && !patience.expired()) {
      co_await asio::post(asio::use_awaitable);
    }
    CHECK_FALSE(returned);
    some.resize(65'536);
    int64_t sent = 0, reused = 0;
    while ((co_await peer.Fill(some)).ok()) {
      sent += std::ranges::count(some, kSent);
      reused += std::ranges::count(some, kReused);
    }
    CHECK(returned);
    CHECK(sent > 0);
    CHECK(reused == 0);
    co_return absl::OkStatus();
  };
  CHECK(loop.Run(Both(serve(), call())) == absl::OkStatus());
}

TEST_CASE("a call answered while its request is written keeps its deadline") {
  Loop loop;
  RawServer raw(loop);
  const Bytes borrowed(64'000'000);
  WaitList returned(loop.executor());
  const auto call = [&]() -> awaitable<Status> {
    OutgoingMessage request;
    request.segments.push_back({.bytes = borrowed});
    const auto refused = co_await raw.client.Call(kEcho, std::move(request), IntoVectors(),
                                                  In(std::chrono::seconds(2)));
    CHECK(absl::IsUnimplemented(refused.status()));
    CHECK(raw.client.peer() == nullptr);
    returned.NotifyAll();
    co_return absl::OkStatus();
  };
  const auto serve = [&]() -> awaitable<Status> {
    RawPeer peer = co_await raw.Accept();
    const Watchdog patience(loop.executor(), Soon(), [&peer] { peer.Close(); });
    Bytes header(kHeaderBytes);
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Fill(header));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(Refusal(1))));
    // Reads nothing.
    CHECK(co_await returned.Wait(In(std::chrono::seconds(10))));
    co_return absl::OkStatus();
  };
  CHECK(loop.Run(Both(serve(), call())) == absl::OkStatus());
}

}  // namespace
}  // namespace simurgh::rpc
