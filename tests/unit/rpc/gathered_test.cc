// Gathered chunks.

#include <algorithm>
#include <cstring>
#include <map>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Encode;
using testing::GatheredChunk;
using testing::Loop;
using testing::RawFrame;
using testing::RawPeer;
using testing::RawPiece;

Bytes Filled(size_t count, uint64_t id) { return Bytes(count, static_cast<std::byte>(id)); }

// The heads of echo requests with ids from 1, and their payload in a gathered chunk.
std::vector<RawFrame> EchoRequests(const std::vector<size_t>& sizes) {
  std::vector<RawFrame> frames;
  std::vector<RawPiece> pieces;
  for (uint64_t id = 1; id <= sizes.size(); ++id) {
    const Bytes payload = Filled(sizes[id - 1], id);
    frames.push_back(HeadOf(EchoRequest(id, {payload})));
    pieces.push_back({id, payload});
  }
  frames.push_back(GatheredChunk(pieces));
  return frames;
}

// Reads the echoes of requests of these sizes, by id, however their payload leaves.
[[nodiscard]] awaitable<Status> ExpectEchoes(RawPeer& peer, std::map<uint64_t, size_t> sizes) {
  std::map<uint64_t, Bytes> payloads;
  size_t left = 0;
  for (const auto& [id, size] : sizes) left += size;
  while (left != 0) {
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame frame, co_await peer.Read());
    CHECK((frame.header.kind == FrameKind::kResponse || frame.header.kind == FrameKind::kChunk));
    for (size_t i = 0; i < frame.segments.size(); ++i) {
      uint64_t id = frame.header.request_id;
      if (frame.header.gathered()) std::memcpy(&id, &frame.metadata[8 * i], sizeof(id));
      Bytes& payload = payloads[id];
      payload.insert(payload.end(), frame.segments[i].begin(), frame.segments[i].end());
      left -= std::min(left, frame.segments[i].size());
    }
  }
  CHECK(payloads.size() == sizes.size());
  for (const auto& [id, size] : sizes) CHECK((payloads[id] == Filled(size, id)));
  co_return absl::OkStatus();
}
[[nodiscard]] awaitable<Status> ExpectEcho(RawPeer& peer, uint64_t id, size_t size) {
  return ExpectEchoes(peer, {{id, size}});
}

TEST_CASE("calls in flight arrive whole with any gathering", "[gathered]") {
  const std::string address = GENERATE(as<std::string>(), "127.0.0.1:0", "unix://", "shm://");
  Loop loop;
  CountingObserver observers[2];
  const auto server = NewServer(
      loop, address.ends_with("/") ? address + UnixPath("gathered") : address, &observers[0]);
  Client client(loop.executor(), server->address(), TestHello("client"), {}, &observers[1]);
  Random random(7);
  const auto call = [&](std::vector<Bytes> segments) -> awaitable<Status> {
    const Bytes metadata = RandomBytes(random, random() % 100);
    const auto echo =
        co_await client.Call(kEcho, Message(metadata, segments), IntoVectors(), Soon());
    SIMURGH_CO_RETURN_IF_ERROR(echo.status());
    CHECK(echo->metadata == metadata);
    CHECK((Segments(*echo) == segments));
    co_return absl::OkStatus();
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<awaitable<Status>> calls;
    for (size_t i = 0; i < 1 + random() % 100; ++i) {
      // At least 4 KiB in total, so that nothing may be copied. Sometimes more segments than one
      // read takes.
      const bool many = random() % 2 == 0;
      std::vector<Bytes> segments(1 + random() % (many ? 60 : 4));
      for (Bytes& segment : segments) segment = RandomBytes(random, random() % (many ? 60 : 8'000));
      segments.push_back(RandomBytes(random, 4'096));
      calls.push_back(call(std::move(segments)));
    }
    CHECK(loop.Run(WhenAll(std::move(calls))) == absl::OkStatus());
  }
  const bool may_copy = address == "shm://";
  for (const CountingObserver& observer : observers) {
    CHECK((may_copy || observer.copied + observer.small_copied == 0));
  }
}

TEST_CASE("both ends gather payloads of some KiB that leave together", "[gathered]") {
  Ends ends;
  const auto from_server = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await Enter(ends));
    const std::vector<RawFrame> requests{EchoRequest(1, {Filled(5'000, 1)}),
                                         EchoRequest(2, {Filled(5'000, 2)})};
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(EncodeAll(requests)));
    for (uint64_t id = 1; id <= 2; ++id) {
      SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame head, co_await peer.Read());
      CHECK(head.header.request_id == id);
      CHECK(head.header.chunked());
    }
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame chunk, co_await peer.Read());
    CHECK(chunk.header.gathered());
    CHECK((chunk.segments == std::vector<Bytes>{Filled(5'000, 1), Filled(5'000, 2)}));
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(from_server()) == absl::OkStatus());

  Loop loop;
  RawServer raw(loop);
  const auto from_client = [&]() -> awaitable<Status> {
    RawPeer peer = co_await raw.Accept();
    for (uint64_t id = 1; id <= 2; ++id) {
      SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame request, co_await peer.Read());
      CHECK(request.header.request_id == id);
      CHECK(request.header.chunked());
    }
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame chunk, co_await peer.Read());
    CHECK(chunk.header.gathered());
    co_return co_await peer.Send(EncodeAll({Response(1, {}), Response(2, {})}));
  };
  const auto call = [&]() -> awaitable<Status> {
    const auto answer =
        co_await raw.client.Call(kEcho, Message({}, {Bytes(5'000)}), IntoVectors(), Soon());
    co_return answer.status();
  };
  CHECK(loop.Run(Both(Both(call(), call()), from_client())) == absl::OkStatus());
}

TEST_CASE("payloads of a gathered chunk are read together", "[gathered]") {
  struct : Observer {
    void OnBytesReceived(uint64_t bytes) override {
      received += bytes;
      ++reads;
    }
    uint64_t received = 0, reads = 0;
  } observer;
  Loop loop;
  const auto server = NewServer(loop, "127.0.0.1:0", &observer);
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await RawPeer::Dial(server->address()));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.ShakeHands(TestHello("peer")));
    const std::vector<size_t> sizes(8, 5'000);
    std::vector<RawFrame> frames = EchoRequests(sizes);
    const Bytes chunk = Encode(frames.back());
    frames.pop_back();
    const Bytes heads = EncodeAll(frames);
    const uint64_t until = observer.received + heads.size();
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(heads));
    while (observer.received != until) co_await asio::post(asio::use_awaitable);
    observer.reads = 0;
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(chunk));
    std::map<uint64_t, size_t> echoes;
    for (uint64_t id = 1; id <= sizes.size(); ++id) echoes[id] = sizes[id - 1];
    co_return co_await ExpectEchoes(peer, echoes);
  };
  CHECK(loop.Run(talk()) == absl::OkStatus());
  CHECK(observer.reads < 8);
}

TEST_CASE("no gathered chunk is larger than its receiver accepts", "[gathered]") {
  ServerOptions options;
  SECTION("bytes") { options.max_frame_bytes = 32'768; }
  SECTION("segments") { options.max_segments = 2; }
  Ends ends(EchoMethod().handle, options);
  std::vector<awaitable<Status>> calls;
  for (uint64_t id = 1; id <= 10; ++id) {
    calls.push_back([](Ends& to, uint64_t id) -> awaitable<Status> {
      const std::vector<Bytes> segments{Filled(10'000, id)};
      const auto echo =
          co_await to.client->Call(kEcho, Message({}, segments), IntoVectors(), Soon());
      SIMURGH_CO_RETURN_IF_ERROR(echo.status());
      CHECK((Segments(*echo) == segments));
      co_return absl::OkStatus();
    }(ends, id));
  }
  CHECK(ends.loop.Run(WhenAll(std::move(calls))) == absl::OkStatus());
  CHECK(ends.observer.closes.empty());
}

TEST_CASE("a message of a gathered chunk does not wait for the next ones", "[gathered]") {
  Ends ends;
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await Enter(ends));
    const std::vector<size_t> sizes{4'096, 9'000, 300'000};
    const Bytes bytes = EncodeAll(EchoRequests(sizes));
    // Cut within a payload, one byte before its end, and at its end.
    const auto end = bytes.end();
    std::vector<Bytes::const_iterator> cuts{bytes.begin(), end - 309'000, end - 305'000,
                                            end - 300'001, end - 300'000, end};
    for (size_t i = 1; i < cuts.size(); ++i) {
      SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Bytes(cuts[i - 1], cuts[i])));
      if (i == 1) SIMURGH_CO_RETURN_IF_ERROR(co_await ExpectEcho(peer, 1, sizes[0]));
      if (i == 4) SIMURGH_CO_RETURN_IF_ERROR(co_await ExpectEcho(peer, 2, sizes[1]));
    }
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame last, co_await peer.Read());
    CHECK(last.header.request_id == 3);
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(talk()) == absl::OkStatus());
}

TEST_CASE("pieces of refused, unknown and cancelled messages are skipped", "[gathered]") {
  Ends ends;
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await Enter(ends));
    std::vector<RawFrame> frames = EchoRequests({5'000, 6'000, 7'000, 8'000});
    frames[1].header.method = 99;
    RawFrame cancel;
    cancel.header.kind = FrameKind::kCancel;
    cancel.header.request_id = 3;
    frames.insert(frames.begin() + 4, cancel);
    frames.back() = GatheredChunk({{1, Filled(5'000, 1)},
                                   {2, Filled(6'000, 2)},
                                   {77, Filled(100, 77)},
                                   {3, Filled(7'000, 3)},
                                   {4, Filled(8'000, 4)}});
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(EncodeAll(frames)));
    for (const uint64_t id : {2, 3}) {
      SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame refusal, co_await peer.Read());
      CHECK(refusal.header.kind == FrameKind::kError);
      CHECK(refusal.header.request_id == id);
    }
    co_return co_await ExpectEchoes(peer, {{1, 5'000}, {4, 8'000}});
  };
  CHECK(ends.loop.Run(talk()) == absl::OkStatus());
}

TEST_CASE("messages of one chunk are throttled like others", "[gathered]") {
  ServerOptions options;
  options.max_requests_per_connection = 1;
  Ends ends(
      [](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
        co_await asio::post(asio::use_awaitable);
        co_return co_await EchoMethod().handle(std::move(request));
      },
      options);
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await Enter(ends));
    std::vector<RawFrame> frames = EchoRequests({5'000, 6'000, 7'000});
    for (RawFrame& frame : frames) {
      if (frame.header.kind == FrameKind::kRequest) frame.header.method = kWork.number;
    }
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(EncodeAll(frames)));
    for (const uint64_t id : {1, 2, 3}) {
      SIMURGH_CO_RETURN_IF_ERROR(co_await ExpectEcho(peer, id, 4'000 + 1'000 * id));
    }
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(talk()) == absl::OkStatus());
  CHECK(ends.observer.throttled(ThrottleReason::kRequests) > 0);
}

TEST_CASE("a malformed gathered chunk closes the connection", "[gathered]") {
  Ends ends;
  const std::vector<std::vector<RawPiece>> lies{
      {{1, Bytes(3'000)}, {1, Bytes(2'000)}},   // A message twice.
      {{0, Bytes(3'000)}, {1, Bytes(2'000)}},   // Id 0.
      {{1, Bytes(5'000)}, {2, Bytes(5'001)}},   // More than announced.
      {{1, Bytes(50'000)}, {2, Bytes(5'000)}},  // The same for the first.
  };
  for (const std::vector<RawPiece>& lie : lies) {
    ends.observer.closes.clear();
    const auto talk = [&]() -> awaitable<Status> {
      SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await Enter(ends));
      std::vector<RawFrame> frames = EchoRequests({5'000, 5'000});
      frames.back() = GatheredChunk(lie);
      SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(EncodeAll(frames)));
      co_await peer.ReadToEnd();
      co_return absl::OkStatus();
    };
    CHECK(ends.loop.Run(talk()) == absl::OkStatus());
    CHECK(ends.observer.closes == std::vector{CloseReason::kMalformed});
  }
  CHECK(ends.EchoWorks());
}

TEST_CASE("a gathered chunk of a complete request closes the connection", "[gathered]") {
  std::optional<Hang> hang;
  Ends ends([&](Request request) { return (*hang)(std::move(request)); });
  hang.emplace(ends.loop.executor());
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await Enter(ends));
    RawFrame complete = EchoRequest(2, {Filled(5'000, 2)});
    complete.header.method = kWork.number;
    const RawFrame chunk = GatheredChunk({{1, Filled(5'000, 1)}, {2, Filled(10, 2)}});
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(
        EncodeAll({complete, HeadOf(EchoRequest(1, {Filled(5'000, 1)})), chunk})));
    co_await peer.ReadToEnd();
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(talk()) == absl::OkStatus());
  CHECK(ends.observer.closes == std::vector{CloseReason::kMalformed});
}

TEST_CASE("nothing of a gathered chunk is written to the destination of an ended call",
          "[gathered]") {
  constexpr size_t kBytes = 5'000;
  Loop loop;
  RawServer raw(loop);
  const uint64_t given_up = GENERATE(1, 2, 3);
  std::vector<Bytes> destinations(3, Bytes(kBytes));
  asio::cancellation_signal cancel;
  std::vector<Status> results(3, absl::UnknownError("has not ended"));
  const auto call = [&](size_t i) -> awaitable<void> {
    const Placement there = [&destinations, i](auto, auto) {
      return StatusOr<std::vector<IncomingSegment>>({{.bytes = destinations[i]}});
    };
    const auto answer = co_await raw.client.Call(kEcho, Message({}), there, Soon());
    results[i] = answer.status();
  };
  for (size_t i = 0; i < 3; ++i) {
    asio::co_spawn(
        loop.context(), call(i),
        asio::bind_cancellation_slot(i + 1 == given_up ? cancel.slot() : asio::cancellation_slot(),
                                     asio::detached));
  }
  const auto serve = [&]() -> awaitable<Status> {
    RawPeer peer = co_await raw.Accept();
    std::vector<RawFrame> frames;
    std::vector<RawPiece> pieces;
    for (uint64_t id = 1; id <= 3; ++id) {
      SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame request, co_await peer.Read());
      CHECK(request.header.request_id == id);
      frames.push_back(HeadOf(Response(id, {Filled(kBytes, id)})));
      pieces.push_back({id, Filled(kBytes, id)});
    }
    frames.push_back(GatheredChunk(pieces));
    const Bytes bytes = EncodeAll(frames);
    const auto middle = bytes.end() - 3 * kBytes + 1'000;
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Bytes(bytes.begin(), middle)));
    while (destinations[0][999] == std::byte{0}) co_await asio::post(asio::use_awaitable);
    cancel.emit(asio::cancellation_type::terminal);
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame heard, co_await peer.Read());
    CHECK(heard.header.kind == FrameKind::kCancel);
    CHECK(heard.header.request_id == given_up);
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Bytes(middle, bytes.end())));
    while (absl::IsUnknown(results[0]) || absl::IsUnknown(results[1]) ||
           absl::IsUnknown(results[2])) {
      co_await asio::post(asio::use_awaitable);
    }
    co_return absl::OkStatus();
  };
  CHECK(loop.Run(serve()) == absl::OkStatus());
  for (uint64_t id = 1; id <= 3; ++id) {
    const Bytes& destination = destinations[id - 1];
    const auto written = std::ranges::count(destination, static_cast<std::byte>(id));
    INFO("call " << id << " of which " << given_up << " was given up");
    CHECK(absl::IsCancelled(results[id - 1]) == (id == given_up));
    if (id != given_up) {
      CHECK(results[id - 1] == absl::OkStatus());
      CHECK(written == kBytes);
    } else {
      CHECK(written == (id == 1 ? 1'000 : 0));
    }
  }
}

}  // namespace
}  // namespace simurgh::rpc
