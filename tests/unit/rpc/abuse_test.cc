// Misbehaving peers: the server closes or delays each for a counted reason, and the calls of an
// honest client succeed within a bounded number of event loop handlers.

#include "tests/unit/rpc/abuse.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include <malloc.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace simurgh::rpc {
namespace {

using testing::Encode;
using testing::RawFrame;
using testing::RawPeer;

// Bytes allocated by malloc.
size_t UsedMemory() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

RawFrame Request(uint64_t id, std::vector<Bytes> segments = {}, uint32_t method = kEcho.number) {
  RawFrame frame;
  frame.header.kind = FrameKind::kRequest;
  frame.header.request_id = id;
  frame.header.method = method;
  frame.segments = std::move(segments);
  return frame;
}

RawFrame Cancel(uint64_t id) {
  RawFrame frame;
  frame.header.kind = FrameKind::kCancel;
  frame.header.request_id = id;
  return frame;
}

// Ignores errors: the peer may not read everything, or close.
void SendInBackground(testing::Loop& loop, const std::shared_ptr<RawPeer>& peer, Bytes bytes) {
  const auto send = [](std::shared_ptr<RawPeer> from, Bytes all) -> awaitable<void> {
    (void)co_await from->Send(std::move(all));
  };
  asio::co_spawn(loop.context(), send(peer, std::move(bytes)), asio::detached);
}

// Connects and sends in the background.
std::shared_ptr<RawPeer> Attack(Ends& ends, Bytes bytes) {
  StatusOr<RawPeer> entered = ends.loop.Run(Enter(ends));
  REQUIRE(entered.status() == absl::OkStatus());
  auto peer = std::make_shared<RawPeer>(*std::move(entered));
  SendInBackground(ends.loop, peer, std::move(bytes));
  return peer;
}

Bytes Repeated(size_t count, const std::function<Bytes(uint64_t)>& frame) {
  Bytes all;
  for (uint64_t id = 1; id <= count; ++id) {
    const Bytes one = frame(id);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// A header with the given lengths, right or wrong.
Bytes Claim(FrameHeader header, std::vector<uint64_t> table) {
  header = Seal(header);
  const auto head = std::as_bytes(std::span(&header, 1));
  const auto rest = std::as_bytes(std::span(table));
  Bytes bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

// The head of a chunked request.
Bytes ChunkedHead(uint64_t id, uint64_t payload_length, uint32_t method = kEcho.number) {
  return Encode(HeadOf(Request(id, {Bytes(payload_length)}, method)));
}

// Connects, sends `first` and then the same bytes repeatedly in the background, and reads
// everything.
std::shared_ptr<RawPeer> Flood(Ends& ends, const Bytes& bytes, const Bytes& first = {}) {
  const auto send = [](std::shared_ptr<RawPeer> from, Bytes once, Bytes again) -> awaitable<void> {
    for (Status sent = co_await from->Send(once); sent.ok();) sent = co_await from->Send(again);
  };
  const auto read = [](std::shared_ptr<RawPeer> peer) -> awaitable<void> {
    co_await peer->ReadToEnd();
  };
  const auto peer = Attack(ends, {});
  asio::co_spawn(ends.loop.context(), send(peer, first, bytes), asio::detached);
  asio::co_spawn(ends.loop.context(), read(peer), asio::detached);
  return peer;
}

// Destinations for payload, with the bytes ever requested and the bytes still in use.
struct Ledger {
  Placement Entering() {
    return [this](std::span<const std::byte> metadata, std::span<const uint64_t> lengths) {
      auto placed = IntoVectors()(metadata, lengths);
      for (IncomingSegment& destination : placed->destinations) {
        const size_t size = destination.bytes.size();
        taken += size;
        held += size;
        destination.owner =
            std::shared_ptr<void>(destination.bytes.data(),
                                  [this, size, owner = destination.owner](void*) { held -= size; });
      }
      return placed;
    };
  }
  size_t taken = 0, held = 0;
};

TEST_CASE("a connection that stops within a frame is closed, wherever it stops", "[abuse]") {
  ServerOptions options;
  options.stall_timeout = std::chrono::milliseconds(40);
  Ends ends(EchoMethod().handle, options);
  REQUIRE(ends.EchoWorks());
  const Bytes small = Encode(Request(1, {Bytes(1'000)}));
  const Bytes large = Encode(Request(1, {Bytes(500'000)}));
  const Bytes chunked = ChunkedHead(1, 300'000);
  const auto part = [](const Bytes& bytes, size_t count) {
    return Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
  };
  for (const Bytes& sent : {part(small, 1), part(small, 63), part(small, 64), part(small, 80),
                            part(large, 100), part(large, 400'000), chunked}) {
    INFO(sent.size() << " bytes");
    ends.observer.closes.clear();
    const auto peer = Attack(ends, sent);
    CHECK(RunWithin(ends.loop, 300, Echo(*ends.client)) == absl::OkStatus());
    ends.loop.Run(UntilClosed(ends.observer, 1));
    CHECK(ends.observer.closes == std::vector{CloseReason::kStalled});
  }
  CHECK(ends.EchoWorks());
}

TEST_CASE("a trickling connection is closed, an idle one is not", "[abuse]") {
  ServerOptions options;
  options.stall_timeout = std::chrono::milliseconds(40);
  Ends ends(EchoMethod().handle, options);
  StatusOr<RawPeer> silent = ends.loop.Run(Enter(ends));
  REQUIRE(silent.status() == absl::OkStatus());
  const auto trickle = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await Enter(ends));
    for (const std::byte byte : Encode(Request(1, {Bytes(500'000)}))) {
      const Status sent = co_await peer.Send({byte});
      if (!sent.ok()) co_return sent;
      co_await asio::post(asio::use_awaitable);
    }
    co_return absl::OkStatus();
  };
  CHECK(absl::IsUnavailable(ends.loop.Run(trickle())));
  CHECK(ends.observer.closes == std::vector{CloseReason::kStalled});
  const auto ask = [&]() -> awaitable<Status> {
    SIMURGH_CO_RETURN_IF_ERROR(co_await silent->Send(Encode(Request(1))));
    const auto answer = co_await silent->Read();
    co_return answer.status();
  };
  CHECK(ends.loop.Run(ask()) == absl::OkStatus());
}

TEST_CASE("small frames do not count as progress of a chunked message", "[abuse]") {
  ServerOptions options;
  options.stall_timeout = std::chrono::milliseconds(40);
  Ends ends(EchoMethod().handle, options);
  const auto peer = Attack(ends, ChunkedHead(1, 300'000));
  const auto busy = [&]() -> awaitable<Status> {
    const Clock::time_point deadline = Soon();
    const Bytes frames = EncodeAll({Cancel(99), Request(2)});
    while (ends.observer.closes.empty() && Clock::now() < deadline) {
      const Status sent = co_await peer->Send(frames);
      if (!sent.ok()) break;
      Waiter moment(ends.loop.executor(), In(std::chrono::milliseconds(5)));
      co_await moment.Wait();
    }
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(busy()) == absl::OkStatus());
  CHECK(ends.observer.closes == std::vector{CloseReason::kStalled});
  CHECK(ends.EchoWorks());
}

TEST_CASE("a server detects that a throttled peer has closed", "[abuse]") {
  ServerOptions options;
  options.max_requests_per_connection = 1;
  options.stall_timeout = std::chrono::milliseconds(40);
  std::unique_ptr<Hang> hang;
  Ends ends([&](rpc::Request request) { return (*hang)(std::move(request)); }, options);
  hang = std::make_unique<Hang>(ends.loop.executor());
  const auto talk = [&]() -> awaitable<bool> {
    StatusOr<RawPeer> peer = co_await Enter(ends);
    CHECK(peer.ok());
    const Bytes requests = EncodeAll({Request(1, {}, kWork.number), Request(2, {}, kWork.number)});
    CHECK(co_await peer->Send(requests) == absl::OkStatus());
    co_await UntilThrottled(ends.observer, ThrottleReason::kRequests);
    peer->Close();
    co_return co_await hang->ended.Wait(Soon());
  };
  CHECK(ends.loop.Run(talk()));
  CHECK(hang->cancelled == 1);
  CHECK(ends.observer.disconnects == 1);
  CHECK(ends.observer.closes.empty());
}

TEST_CASE("announced bytes that are not sent take no memory", "[abuse]") {
  ServerOptions options;
  options.stall_timeout = std::chrono::milliseconds(40);
  Ends ends(EchoMethod().handle, options);
  REQUIRE(ends.EchoWorks());
  FrameHeader header = Request(1).header;
  header.metadata_length = 16 << 20;
  header.segment_count = kMaxSegments;
  header.payload_length = 1;
  const Bytes claim = Claim(header, {});
  constexpr size_t kPeers = 16;
  const size_t before = UsedMemory();
  std::vector<std::shared_ptr<RawPeer>> peers;
  for (size_t i = 0; i < kPeers; ++i) peers.push_back(Attack(ends, claim));
  CHECK(RunWithin(ends.loop, 300, Echo(*ends.client)) == absl::OkStatus());
  CHECK(UsedMemory() < before + kPeers * 300'000);
  ends.loop.Run(UntilClosed(ends.observer, kPeers));
  CHECK(ends.observer.closes == std::vector(kPeers, CloseReason::kStalled));
}

TEST_CASE("announced payload takes at most the window or one frame of memory", "[abuse]") {
  constexpr uint64_t kWindow = 1 << 20;
  constexpr uint64_t kMaxFrame = 2 << 20;
  constexpr uint64_t kHead = kHeaderBytes + sizeof(uint64_t);
  constexpr uint64_t kQuarter = kWindow / 4 - kHead;
  ServerOptions options;
  options.max_frame_bytes = kMaxFrame;
  options.max_request_bytes_per_connection = kWindow;
  options.stall_timeout = std::chrono::milliseconds(40);
  Ledger ledger;
  Ends ends(EchoMethod().handle, options, ledger.Entering());
  REQUIRE(ends.EchoWorks());
  FrameHeader header = Request(1, {}, kWork.number).header;
  header.segment_count = 1;
  const auto whole = [&](uint64_t frame_bytes) {
    header.payload_length = frame_bytes - kHead;
    return Claim(header, {header.payload_length});
  };
  const auto chunked = [](uint64_t id) { return ChunkedHead(id, kQuarter, kWork.number); };
  Bytes sent;
  uint64_t taken = 0;
  CloseReason reason = CloseReason::kStalled;
  SECTION("all of it in one frame, of which nothing comes") {
    sent = whole(kWindow);
    taken = kWindow - kHead;
  }
  SECTION("all of it in chunks, of which little comes") {
    sent = Repeated(4, chunked);
    RawFrame chunk = Request(1, {Bytes(1'000)});
    chunk.header.kind = FrameKind::kChunk;
    chunk.header.method = 0;
    const Bytes little = Encode(chunk);
    sent.insert(sent.end(), little.begin(), little.end());
    taken = 4 * kQuarter;
  }
  SECTION("more than it in chunks") {
    sent = Repeated(5, chunked);
    taken = 4 * kQuarter;
    reason = CloseReason::kWindow;
  }
  SECTION("more than it in one frame, as one request may: alone") {
    sent = whole(kMaxFrame);
    taken = kMaxFrame - kHead;
  }
  SECTION("more than a frame may hold") {
    sent = whole(kMaxFrame + 1);
    reason = CloseReason::kMalformed;
  }
  constexpr size_t kPeers = 16;
  std::vector<std::shared_ptr<RawPeer>> peers;
  for (size_t i = 0; i < kPeers; ++i) peers.push_back(Attack(ends, sent));
  CHECK(RunWithin(ends.loop, 300, Echo(*ends.client)) == absl::OkStatus());
  ends.loop.Run(UntilClosed(ends.observer, kPeers));
  CHECK(ends.observer.closes == std::vector(kPeers, reason));
  CHECK(ends.EchoWorks());
  CHECK(ledger.taken == kPeers * taken);
  CHECK(ledger.held == 0);
}

TEST_CASE("requests cancelled before they are complete leave no memory allocated", "[abuse]") {
  Ends ends;
  StatusOr<RawPeer> peer = ends.loop.Run(Enter(ends));
  REQUIRE(peer.ok());
  constexpr size_t kRequests = 10'000;
  const Bytes heads = Repeated(kRequests, [](uint64_t id) { return ChunkedHead(id, 4'096); });
  const Bytes cancels = Repeated(kRequests, [](uint64_t id) { return Encode(Cancel(id)); });
  const auto talk = [&](const Bytes& bytes, size_t answers) -> awaitable<Status> {
    const auto read = [&]() -> awaitable<Status> {
      for (size_t i = 0; i < answers; ++i) {
        SIMURGH_CO_RETURN_IF_ERROR((co_await peer->Read()).status());
      }
      co_return absl::OkStatus();
    };
    co_return co_await Both(peer->Send(bytes), read());
  };
  REQUIRE(ends.loop.Run(talk(Encode(Request(kRequests + 1)), 1)) == absl::OkStatus());
  const size_t before = UsedMemory();
  REQUIRE(ends.loop.Run(talk(heads, 0)) == absl::OkStatus());
  REQUIRE(ends.loop.Run(talk(cancels, kRequests)) == absl::OkStatus());
  CHECK(UsedMemory() < before + kRequests * 100);
}

// Resident memory of this process. Source: proc(5), /proc/pid/statm.
size_t ResidentMemory() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// All of the head of a request but its last byte.
Bytes UnfinishedHead(size_t metadata) {
  RawFrame frame = Request(1);
  frame.metadata = Bytes(metadata, std::byte{1});
  Bytes bytes = Encode(frame);
  bytes.pop_back();
  return bytes;
}

TEST_CASE("unfinished heads of many peers take a bounded amount of memory", "[abuse]") {
  constexpr size_t kPeers = 512;
  constexpr size_t kHead = size_t{1} << 20;
  constexpr size_t kPool = 8 * kHead;
  ServerOptions options{.peer_bytes = kPool, .max_connections_per_host = kPeers + 1};
  options.stall_timeout = std::chrono::milliseconds(40);
  Ends ends(EchoMethod().handle, options);
  REQUIRE(ends.EchoWorks());
  const Bytes unfinished = UnfinishedHead(kHead - 100);
  const size_t before = ResidentMemory();
  size_t most = before;
  std::vector<std::shared_ptr<RawPeer>> peers;
  // Sends what the sockets accept, without waiting.
  for (size_t i = 0; i < kPeers; ++i) {
    StatusOr<RawPeer> entered = ends.loop.Run(Enter(ends));
    REQUIRE(entered.status() == absl::OkStatus());
    peers.push_back(std::make_shared<RawPeer>(*std::move(entered)));
    REQUIRE(peers.back()->TrySend(unfinished) > 0);
    most = std::max(most, ResidentMemory());
  }
  ends.loop.Run(UntilThrottled(ends.observer, ThrottleReason::kMemory));
  // The peers that hold memory are cut, and the others get it, until all have been cut.
  while (ends.observer.closes.size() < kPeers / 10) {
    ends.loop.context().run_one();
    most = std::max(most, ResidentMemory());
  }
  // A growing vector takes up to twice its bytes, and each connection some buffers. Sanitizers keep
  // freed memory.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
  CHECK(most - before < 2 * kPool + kPeers * 65'536);
#endif
  CHECK(std::ranges::all_of(ends.observer.closes, [](CloseReason reason) {
    return reason == CloseReason::kStalled || reason == CloseReason::kMemory;
  }));
  CHECK(ends.EchoWorks());
}

// Sends the bytes from many peers that read nothing, then checks memory and that the server serves
// an honest client.
void CheckBounded(Ends& ends, uint64_t pool, const Bytes& bytes) {
  constexpr size_t kPeers = 512;
  REQUIRE(ends.EchoWorks());
  const size_t before = ResidentMemory();
  size_t most = before;
  std::vector<std::shared_ptr<RawPeer>> peers;
  for (size_t i = 0; i < kPeers; ++i) {
    peers.push_back(Attack(ends, {}));
    REQUIRE(peers.back()->TrySend(bytes) > 0);
    most = std::max(most, ResidentMemory());
  }
  for (int i = 0; i < 20'000; ++i) {
    if (ends.loop.context().poll_one() == 0) break;
    most = std::max(most, ResidentMemory());
  }
  // The peer that takes most is closed, until there is memory for the honest client.
  CHECK(ends.EchoWorks());
  most = std::max(most, ResidentMemory());
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
  CHECK(most - before < 2 * pool + kPeers * 131'072);
#endif
  CHECK_FALSE(ends.observer.closes.empty());
  CHECK(std::ranges::all_of(ends.observer.closes, [](CloseReason reason) {
    return reason == CloseReason::kStalled || reason == CloseReason::kMemory;
  }));
}

TEST_CASE("requests and answers of many peers take a bounded amount of memory", "[abuse]") {
  constexpr uint64_t kPool = uint64_t{64} << 20;
  ServerOptions options{.peer_bytes = kPool, .max_connections_per_host = 513};
  options.stall_timeout = std::chrono::milliseconds(40);
  const auto answer_large = [](rpc::Request) -> awaitable<StatusOr<OutgoingMessage>> {
    co_return Message({}, {Bytes(8 << 20, std::byte{1})});
  };
  Ends ends(answer_large, options);
  SECTION("unread answers") { CheckBounded(ends, kPool, Encode(Request(1, {}, kWork.number))); }
  SECTION("payloads of which the end is missing") {
    Bytes payload = Encode(Request(1, {Bytes(4 << 20, std::byte{1})}));
    payload.pop_back();
    CheckBounded(ends, kPool, payload);
  }
  SECTION("small heads of messages whose chunks do not come") {
    const auto head = [](uint64_t id) {
      RawFrame frame = HeadOf(Request(id, {Bytes(4'096)}));
      frame.metadata = Bytes(24'000, std::byte{1});
      return Encode(frame);
    };
    CheckBounded(ends, kPool, Repeated(100, head));
  }
}

TEST_CASE("a large head waits until there is memory for it", "[abuse]") {
  constexpr size_t kHead = 100'000;
  Ends ends(EchoMethod().handle, {.peer_bytes = kHead});
  REQUIRE(ends.EchoWorks());
  const auto first = Attack(ends, UnfinishedHead(kHead));
  const auto large_call = [&](const std::vector<Bytes>& segments) -> awaitable<Status> {
    const auto answer =
        co_await ends.client->Call(kEcho, Message(Bytes(kHead), segments), IntoVectors(), Soon());
    co_return answer.status();
  };
  const auto finish = [&]() -> awaitable<Status> {
    co_await UntilThrottled(ends.observer, ThrottleReason::kMemory);
    SIMURGH_CO_RETURN_IF_ERROR(co_await first->Send(Bytes(1)));
    co_return (co_await first->Read()).status();
  };
  CHECK(ends.loop.Run(Both(large_call({}), finish())) == absl::OkStatus());
  // The memory is free again, also after a request in chunks.
  CHECK(ends.loop.Run(large_call({Bytes(3'000'000)})) == absl::OkStatus());
  CHECK(ends.loop.Run(large_call({})) == absl::OkStatus());
}

// Calls the echo until a call has had to wait for memory, and to its end.
[[nodiscard]] awaitable<Status> EchoUnderPressure(Ends& ends) {
  do {
    SIMURGH_CO_RETURN_IF_ERROR(co_await Echo(*ends.client));
  } while (ends.observer.throttled(ThrottleReason::kMemory) == 0);
  co_return absl::OkStatus();
}

TEST_CASE("requests do not wait for memory that other waiting requests hold", "[abuse]") {
  constexpr size_t kHead = 100'000;
  Ends ends(EchoMethod().handle, {.peer_bytes = kHead});
  const auto answer_large = [&]() -> awaitable<Status> {
    co_return (
        co_await ends.client->Call(kEcho, Message({}, {Bytes(kHead)}), IntoVectors(), Soon()))
        .status();
  };
  // From now on, a call of the echo takes all memory of answers.
  REQUIRE(ends.loop.Run(answer_large()) == absl::OkStatus());
  const auto first = Attack(ends, UnfinishedHead(kHead));
  const auto finish = [&]() -> awaitable<Status> {
    co_await UntilThrottled(ends.observer, ThrottleReason::kMemory);
    SIMURGH_CO_RETURN_IF_ERROR(co_await first->Send(Bytes(1)));
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame answer, co_await first->Read());
    CHECK(answer.header.kind == FrameKind::kResponse);
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(Both(EchoUnderPressure(ends), finish())) == absl::OkStatus());
  CHECK(ends.observer.closes.empty());
}

TEST_CASE("a request gets memory that answers return when it begins to wait", "[abuse]") {
  Ends ends(EchoMethod().handle, {.peer_bytes = 20'000});
  const auto echo = [&](size_t bytes) -> awaitable<Status> {
    co_return (
        co_await ends.client->Call(kEcho, Message({}, {Bytes(bytes)}), IntoVectors(), Soon()))
        .status();
  };
  // From now on, a call takes all memory of answers.
  REQUIRE(ends.loop.Run(echo(10'000)) == absl::OkStatus());
  // Sent together, so that each finds the answer of the last not yet written.
  std::vector<awaitable<Status>> calls;
  for (size_t i = 0; i < 8; ++i) calls.push_back(echo(100));
  CHECK(ends.loop.Run(WhenAll(std::move(calls))) == absl::OkStatus());
  CHECK(ends.observer.throttled(ThrottleReason::kMemory) > 0);
  CHECK(ends.observer.closes.empty());
}

TEST_CASE("a request waits for memory as long as handlers hold it", "[abuse]") {
  constexpr std::chrono::milliseconds kStall{40};
  ServerOptions options{.peer_bytes = 100'000};
  options.stall_timeout = kStall;
  bool holds = false;
  std::optional<WaitList> released;
  Ends ends(
      [&](rpc::Request) -> awaitable<StatusOr<OutgoingMessage>> {
        if (holds) co_await released->Wait(Soon());
        co_return Message({}, {Bytes(100'000)});
      },
      options);
  released.emplace(ends.loop.executor());
  REQUIRE(ends.Call(kWork).ok());  // From now on, a call takes all memory of answers.
  holds = true;
  const auto other = ends.NewClient();
  const auto work = [](Client& client) -> awaitable<Status> {
    co_return (co_await client.Call(kWork, {}, IntoVectors(), Soon())).status();
  };
  const auto release = [&]() -> awaitable<Status> {
    co_await UntilThrottled(ends.observer, ThrottleReason::kMemory);
    Waiter many_checks(ends.loop.executor(), In(10 * kStall));
    co_await many_checks.Wait();
    holds = false;
    released->NotifyAll();
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(Both(Both(work(*ends.client), work(*other)), release())) == absl::OkStatus());
  CHECK(ends.observer.closes.empty());
}

TEST_CASE("incomplete requests that fill the memory do not keep others out", "[abuse]") {
  ServerOptions options{.peer_bytes = 100'000};
  options.stall_timeout = std::chrono::seconds(2);
  Ends ends(EchoMethod().handle, options);
  // Each takes half of what there is. Refused requests take and return a little of it, and their
  // payload is progress enough for the stall timeout.
  const Bytes refused = Encode(Request(2, {Bytes(200'000)}));
  const auto one = Flood(ends, refused, ChunkedHead(1, 24'500));
  const auto other = Flood(ends, refused, ChunkedHead(1, 23'000));
  CHECK(ends.loop.Run(EchoUnderPressure(ends)) == absl::OkStatus());
  CHECK_FALSE(ends.observer.closes.empty());
  CHECK(std::ranges::all_of(ends.observer.closes,
                            [](CloseReason reason) { return reason == CloseReason::kMemory; }));
}

TEST_CASE("a head that would wait for its own connection is refused", "[abuse]") {
  constexpr size_t kHead = 100'000;
  Ends ends(EchoMethod().handle, {.peer_bytes = kHead});
  StatusOr<RawPeer> peer = ends.loop.Run(Enter(ends));
  REQUIRE(peer.status() == absl::OkStatus());
  RawFrame first = HeadOf(Request(1, {Bytes(5'000)}));
  first.metadata = Bytes(kHead);
  RawFrame second = Request(2, {Bytes(10)});
  second.metadata = Bytes(kHead);
  RawFrame chunk;
  chunk.header.kind = FrameKind::kChunk;
  chunk.header.request_id = 1;
  chunk.segments = {Bytes(5'000)};
  const auto converse = [&]() -> awaitable<Status> {
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer->Send(EncodeAll({first, second, chunk})));
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame refused, co_await peer->Read());
    CHECK(refused.header.kind == FrameKind::kError);
    CHECK(refused.header.request_id == 2);
    CHECK(refused.header.code == static_cast<uint16_t>(absl::StatusCode::kUnavailable));
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame answer, co_await peer->Read());
    CHECK(answer.header.kind == FrameKind::kResponse);
    CHECK(answer.header.request_id == 1);
    // Now there is room.
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer->Send(Encode(second)));
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame again, co_await peer->Read());
    CHECK(again.header.kind == FrameKind::kResponse);
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(converse()) == absl::OkStatus());
  CHECK(ends.observer.closes.empty());
}

TEST_CASE("a head above the limit of its method is refused, and the connection goes on",
          "[abuse]") {
  testing::Loop loop;
  Server server(loop.executor(), TestHello("server"), ServerOptions(), nullptr);
  Method echo = EchoMethod();
  echo.max_head_bytes = 40'000;
  server.Register(std::move(echo));
  REQUIRE(server.Listen("127.0.0.1:0") == absl::OkStatus());
  Client client(loop.executor(), server.address(), TestHello("client"), {}, nullptr);
  const auto call = [&](size_t metadata) {
    return loop
        .Run(client.Call(kEcho, Message(Bytes(metadata), {Bytes(300'000)}), IntoVectors(), Soon()))
        .status();
  };
  // The table of the segments takes 8 bytes.
  CHECK(call(40'000 - 8) == absl::OkStatus());
  const Status refused = call(40'000 - 7);
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("has 40001 bytes of tables and metadata, the method accepts 40000"));
  CHECK(call(10) == absl::OkStatus());
}

TEST_CASE("only requests have large heads", "[abuse]") {
  Ends ends;
  RawFrame frame = Cancel(7);
  frame.metadata = Bytes(100'000);
  const auto peer = Attack(ends, Encode(frame));
  ends.loop.Run(UntilClosed(ends.observer, 1));
  CHECK(ends.observer.closes == std::vector{CloseReason::kMalformed});
}

TEST_CASE("garbage closes its connection only", "[abuse]") {
  Ends ends;
  REQUIRE(ends.EchoWorks());
  Random random(23);
  for (size_t i = 1; i <= 20; ++i) {
    const auto peer = Attack(ends, RandomBytes(random, 10'000));
    CHECK(RunWithin(ends.loop, 100, Echo(*ends.client)) == absl::OkStatus());
    ends.loop.Run(UntilClosed(ends.observer, i));
  }
  CHECK(ends.observer.closes == std::vector(20, CloseReason::kMalformed));
}

TEST_CASE("a flood of tiny frames is throttled", "[abuse]") {
  int came = 0;
  Ends ends([&](rpc::Request) -> awaitable<StatusOr<OutgoingMessage>> {
    ++came;
    co_return OutgoingMessage();
  });
  REQUIRE(ends.EchoWorks());
  constexpr int kFlood = 50'000;
  Bytes flood;
  SECTION("of cancellations") {
    flood = Repeated(kFlood, [](uint64_t id) { return Encode(Cancel(id)); });
  }
  SECTION("of requests") {
    flood = Repeated(kFlood, [](uint64_t id) { return Encode(Request(id, {}, kWork.number)); });
  }
  SECTION("of requests that are cancelled at once") {
    flood = Repeated(kFlood, [](uint64_t id) {
      return Encode(id % 2 == 0 ? Cancel(id - 1) : Request(id, {}, kWork.number));
    });
  }
  SECTION("of requests for a method that is not there") {
    flood = Repeated(kFlood, [](uint64_t id) { return Encode(Request(id, {}, 99)); });
  }
  const auto peer = Attack(ends, std::move(flood));
  // A call takes a few rounds of the event loop; the flood has one turn in each.
  constexpr int kTurns = 8;
  constexpr int kTurnFrames = 256;
  for (int i = 0; i < 20; ++i) {
    const int came_before = came;
    const int turns_before = ends.observer.throttled(ThrottleReason::kTurn);
    CHECK(RunWithin(ends.loop, 60, Echo(*ends.client)) == absl::OkStatus());
    CHECK(came - came_before <= kTurns * kTurnFrames);
    CHECK(ends.observer.throttled(ThrottleReason::kTurn) - turns_before <= kTurns);
  }
  CHECK(ends.observer.throttled(ThrottleReason::kTurn) > 0);
}

TEST_CASE("large calls make progress among floods of tiny frames", "[abuse]") {
  int came = 0;
  Ends ends([&](rpc::Request) -> awaitable<StatusOr<OutgoingMessage>> {
    ++came;
    co_return OutgoingMessage();
  });
  REQUIRE(ends.EchoWorks());
  constexpr int kFloods = 6;
  constexpr int kIds = 4'096;  // Answered before they are used again.
  const Bytes requests =
      Repeated(kIds, [](uint64_t id) { return Encode(Request(id, {}, kWork.number)); });
  const Bytes cancellations = Repeated(kIds, [](uint64_t id) { return Encode(Cancel(id)); });
  RawFrame nothing;
  nothing.header.kind = FrameKind::kPadding;
  const Bytes padding = Repeated(kIds, [&](uint64_t) { return Encode(nothing); });
  const Bytes* const kinds[] = {&requests, &cancellations, &padding};
  std::vector<std::shared_ptr<RawPeer>> peers;
  for (int i = 0; i < kFloods; ++i) peers.push_back(Flood(ends, *kinds[i % 3]));
  const Bytes payload(1 << 20, std::byte{5});
  const auto echo = [&]() -> awaitable<Status> {
    const auto answer =
        co_await ends.client->Call(kEcho, Message({}, {payload}), IntoVectors(), Soon());
    SIMURGH_CO_RETURN_IF_ERROR(answer.status());
    CHECK((Segments(*answer) == std::vector<Bytes>{payload}));
    co_return absl::OkStatus();
  };
  // A call takes a few rounds of the event loop; every flood has one turn in each.
  constexpr int kTurns = 8;
  constexpr int kTurnFrames = 256;
  constexpr int kFrames = kTurns * kFloods * kTurnFrames;
  for (int i = 0; i < 20; ++i) {
    const int came_before = came;
    const int turns_before = ends.observer.throttled(ThrottleReason::kTurn);
    CHECK(RunWithin(ends.loop, kFrames, echo()) == absl::OkStatus());
    CHECK(came - came_before <= kFrames / 3);  // Only every third flood is of requests.
    CHECK(ends.observer.throttled(ThrottleReason::kTurn) - turns_before <= kTurns * kFloods);
  }
  CHECK(came > 0);
  CHECK(ends.observer.throttled(ThrottleReason::kTurn) > 0);
  CHECK(ends.observer.closes.empty());
}

TEST_CASE("a peer that does not read its answers is throttled, then its connection closed",
          "[abuse]") {
  ServerOptions options;
  options.max_requests_per_connection = 64;
  options.max_answer_bytes_per_connection = 4 << 20;
  options.unread_timeout = std::chrono::milliseconds(60);
  int came = 0;
  const auto block = std::make_shared<const Bytes>(1 << 20);
  Ends ends(
      [&](rpc::Request) -> awaitable<StatusOr<OutgoingMessage>> {
        ++came;
        OutgoingMessage large;
        large.segments.push_back({*block, block});
        co_return large;
      },
      options);
  REQUIRE(ends.EchoWorks());
  constexpr int kRequests = 120'000;  // More answers than both buffers hold.
  Bytes flood;
  ThrottleReason reason{};
  int most = 0;
  SECTION("large ones") {
    flood = Repeated(kRequests, [](uint64_t id) { return Encode(Request(id, {}, kWork.number)); });
    reason = ThrottleReason::kAnswers;
    most = 64;
  }
  SECTION("refusals") {
    flood = Repeated(kRequests, [](uint64_t id) { return Encode(Request(id, {}, 99)); });
    reason = ThrottleReason::kRequests;
  }
  SECTION("cancellations of what is arriving") {
    flood = Repeated(kRequests, [](uint64_t id) {
      return id % 2 == 0 ? Encode(Cancel(id - 1)) : ChunkedHead(id, 5'000);
    });
    reason = ThrottleReason::kRequests;
  }
  const auto peer = Attack(ends, std::move(flood));
  for (int i = 0; i < 20; ++i) {
    CHECK(RunWithin(ends.loop, 100, Echo(*ends.client)) == absl::OkStatus());
  }
  ends.loop.Run(UntilClosed(ends.observer, 1));
  CHECK(ends.observer.closes == std::vector{CloseReason::kNotReading});
  CHECK(ends.observer.throttled(reason) > 0);
  CHECK(came <= most);
  CHECK(ends.EchoWorks());
}

TEST_CASE("requests beyond the window close the connection", "[abuse]") {
  ServerOptions options;
  options.max_request_bytes_per_connection = 10'000;
  std::unique_ptr<Hang> hang;
  Ends ends([&](rpc::Request request) { return (*hang)(std::move(request)); }, options);
  hang = std::make_unique<Hang>(ends.loop.executor());
  REQUIRE(ends.EchoWorks());
  const auto peer = Attack(ends, Repeated(3, [](uint64_t id) {
                             return Encode(Request(id, {Bytes(4'000)}, kWork.number));
                           }));
  CHECK(RunWithin(ends.loop, 100, Echo(*ends.client)) == absl::OkStatus());
  ends.loop.Run(UntilClosed(ends.observer, 1));
  CHECK(ends.observer.closes == std::vector{CloseReason::kWindow});
}

TEST_CASE("large chunked requests do not wait for each other", "[abuse]") {
  ServerOptions options;
  options.max_requests_per_connection = 2;
  Ends ends(EchoMethod().handle, options);
  std::vector<awaitable<Status>> calls;
  const auto call = [&](size_t size) -> awaitable<Status> {
    const auto answer =
        co_await ends.client->Call(kEcho, Message({}, {Bytes(size)}), IntoVectors(), Soon());
    co_return answer.status();
  };
  for (size_t i = 0; i < 12; ++i) calls.push_back(call(i % 3 == 0 ? 100 : 3'000'000));
  CHECK(ends.loop.Run(WhenAll(std::move(calls))) == absl::OkStatus());
}

}  // namespace
}  // namespace simurgh::rpc
