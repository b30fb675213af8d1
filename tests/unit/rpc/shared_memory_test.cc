// Calls over shared memory.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "rpc/control.h"
#include "rpc/sharing.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Loop;

constexpr uint64_t kSmallRegion = 16 * kPageBytes;

// A server with one method of the test, and its client.
struct SharingEnds {
  explicit SharingEnds(Handler work, Placement placement = AllocateAll(8),
                       const std::string& address = "shm://" + UnixPath("shared"),
                       uint64_t region_bytes = kSmallRegion)
      : server(loop.executor(), TestHello("server"), {.shared_memory_bytes = region_bytes},
               &server_observer) {
    server.Register({.id = kWork, .placement = std::move(placement), .handle = std::move(work)});
    REQUIRE(server.Listen(address) == absl::OkStatus());
    client.emplace(loop.executor(), server.address(), TestHello("client"),
                   ClientOptions{.shared_memory_bytes = region_bytes}, &client_observer);
  }

  StatusOr<IncomingMessage> Call(OutgoingMessage request, Placement placement = AllocateAll(8)) {
    return loop.Run(client->Call(kWork, std::move(request), std::move(placement), Soon()));
  }

  // Connects, so that shared memory exists.
  void Connect() { REQUIRE(Call(Message(Text("hello"))).status() == absl::OkStatus()); }

  // Filled with `value`.
  SegmentBuffer Filled(size_t bytes, uint8_t value) {
    SegmentBuffer buffer = client->Allocate(bytes);
    std::ranges::fill(buffer.bytes, static_cast<std::byte>(value));
    return buffer;
  }

  Loop loop;
  CountingObserver server_observer, client_observer;
  Server server;
  std::optional<Client> client;
};

bool AllAre(const ReceivedSegment& segment, uint8_t value) {
  return std::ranges::all_of(segment.bytes,
                             [&](std::byte byte) { return byte == static_cast<std::byte>(value); });
}

// Answers each segment with its bytes plus one, produced in place.
[[nodiscard]] awaitable<StatusOr<OutgoingMessage>> AddOne(Request request) {
  OutgoingMessage response;
  for (const ReceivedSegment& segment : request.message.segments) {
    const SegmentBuffer buffer = request.Allocate(segment.bytes.size());
    std::ranges::transform(segment.bytes, buffer.bytes.begin(), [](std::byte byte) {
      return static_cast<std::byte>(static_cast<uint8_t>(byte) + 1);
    });
    response.segments.push_back(buffer.segment());
  }
  co_return response;
}

[[nodiscard]] awaitable<StatusOr<OutgoingMessage>> Nothing(Request /*request*/) {
  co_return OutgoingMessage();
}

OutgoingMessage Sending(const SegmentBuffer& buffer) {
  OutgoingMessage message;
  message.segments.push_back(buffer.segment());
  return message;
}

TEST_CASE(
    "over shared memory, a tensor produced in place and received into kAllocate is not copied") {
  SharingEnds ends(AddOne, AllocateAll(8), "shm://" + UnixPath("shared"), 4'194'304);
  ends.Connect();
  for (const size_t bytes : {4'096, 4'097, 20'000, 1'000'003}) {
    const auto answer = ends.Call(Sending(ends.Filled(bytes, 7)));
    REQUIRE(answer.status() == absl::OkStatus());
    REQUIRE(answer->segments.size() == 1);
    CHECK(answer->segments[0].bytes.size() == bytes);
    CHECK(AllAre(answer->segments[0], 8));
  }
  CHECK(ends.client_observer.copied == 0);
  CHECK(ends.server_observer.copied == 0);
  CHECK(ends.client_observer.sent >= 1'028'196);
  CHECK(ends.client_observer.sent == ends.server_observer.received);
  CHECK(ends.client_observer.received == ends.server_observer.sent);
}

TEST_CASE("ordinary memory is copied into shared memory once, a named destination once out of it") {
  constexpr size_t kBytes = 30'000;
  Bytes destination(kBytes);
  SharingEnds ends(AddOne, IntoVectors());
  const auto into_place = [&](auto, auto) {
    return StatusOr<std::vector<IncomingSegment>>({{.bytes = destination}});
  };
  const auto answer = ends.Call(Message({}, {Bytes(kBytes, std::byte{1})}), into_place);
  REQUIRE(answer.status() == absl::OkStatus());
  CHECK(answer->segments[0].bytes.data() == destination.data());
  CHECK(destination == Bytes(kBytes, std::byte{2}));
  CHECK(ends.client_observer.copied == 2 * kBytes);  // The request in, the response out.
  CHECK(ends.server_observer.copied == kBytes);      // The request out; the response is in place.
}

TEST_CASE("an aligned part of a tensor is lent in place, another is copied once") {
  SharingEnds ends(Nothing);
  ends.Connect();
  const SegmentBuffer buffer = ends.Filled(20'000, 1);
  OutgoingMessage parts;
  parts.segments = {{buffer.bytes.subspan(0, 6'400), buffer.owner},
                    {buffer.bytes.subspan(6'400, 5'000), buffer.owner},
                    {buffer.bytes.subspan(11'400, 8'600), buffer.owner}};
  REQUIRE(ends.Call(std::move(parts)).status() == absl::OkStatus());
  CHECK(ends.client_observer.copied == 8'600);
}

TEST_CASE("a received segment is forwarded with one copy") {
  SharingEnds ends(EchoMethod().handle);
  ends.Connect();
  const auto answer = ends.Call(Sending(ends.Filled(8'192, 5)));
  REQUIRE(answer.status() == absl::OkStatus());
  CHECK(AllAre(answer->segments[0], 5));
  CHECK(ends.client_observer.copied == 0);
  CHECK(ends.server_observer.copied == 8'192);
}

TEST_CASE("borrowed segments mix with small ones and with segments that do not fit") {
  SharingEnds ends(AddOne);
  Random random(3);
  const std::vector<size_t> sizes{0, 5'000, 10, 4'095, 4'096, 2'000'000, 0, 9'999};
  for (int round = 0; round < 3; ++round) {
    std::vector<Bytes> segments;
    for (const size_t size : sizes) segments.push_back(RandomBytes(random, size));
    const auto answer = ends.Call(Message(Text("mixed"), segments));
    REQUIRE(answer.status() == absl::OkStatus());
    REQUIRE(answer->segments.size() == sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      INFO("segment " << i);
      Bytes expected = segments[i];
      for (std::byte& byte : expected) byte = static_cast<std::byte>(uint8_t(byte) + 1);
      CHECK(std::ranges::equal(answer->segments[i].bytes, expected));
    }
  }
}

TEST_CASE("a message of the maximum size is accepted if little of it can be lent") {
  constexpr size_t kCount = 1'000;
  constexpr size_t kEach = Sharing::kMinBorrowedBytes;
  Loop loop;
  RecordingObserver observer;
  ServerOptions options;
  options.max_frame_bytes = kHeaderBytes + kCount * (sizeof(uint64_t) + kEach);
  Server server(loop.executor(), TestHello("server"), options, &observer);
  server.Register({.id = kWork, .placement = AllocateAll(kCount), .handle = Nothing});
  REQUIRE(server.Listen("shm://" + UnixPath("shared")) == absl::OkStatus());
  const uint64_t region_bytes =
      GENERATE(as<uint64_t>(), kPageBytes, kSmallRegion, 2 * kCount * kEach);
  CAPTURE(region_bytes);
  Client client(loop.executor(), server.address(), TestHello("client"),
                {.shared_memory_bytes = region_bytes}, nullptr);
  const std::vector<Bytes> segments(kCount, Bytes(kEach));
  const auto answer = loop.Run(client.Call(kWork, Message({}, segments), NoSegments(), Soon()));
  CHECK(answer.status() == absl::OkStatus());
  CHECK(observer.closes.empty());
}

TEST_CASE("many small segments are not lent: their table would be larger") {
  SharingEnds ends(AddOne, AllocateAll(65'535));
  std::vector<Bytes> segments(10'000, Bytes(1));
  segments.front() = Bytes(4'096);
  const auto answer = ends.Call(Message({}, segments), AllocateAll(65'535));
  REQUIRE(answer.status() == absl::OkStatus());
  CHECK(answer->segments.size() == segments.size());
  CHECK(AllAre(answer->segments.front(), 1));
}

TEST_CASE(
    "memory that the receiver holds is not used again; meanwhile payload goes by the socket") {
  std::optional<ReceivedSegment> held;
  SharingEnds ends([&](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
    if (!request.message.segments.empty() && !held) held = request.message.segments[0];
    co_return OutgoingMessage();
  });
  ends.Connect();
  SegmentBuffer all = ends.Filled(kSmallRegion, 1);
  const std::byte* const destination = all.bytes.data();
  REQUIRE(ends.Call(Sending(all)).ok());
  all = {};
  REQUIRE(held.has_value());
  CHECK(ends.client_observer.copied == 0);

  // No space: an ordinary buffer, and nothing is lent.
  for (uint8_t value = 2; value < 12; ++value) {
    const SegmentBuffer other = ends.Filled(kSmallRegion, value);
    CHECK(other.bytes.data() != destination);
    REQUIRE(ends.Call(Sending(other)).ok());
  }
  CHECK(ends.client_observer.copied == 0);
  CHECK(AllAre(*held, 1));

  held.reset();
  const SegmentBuffer again = ends.Filled(kSmallRegion, 50);
  CHECK(again.bytes.data() == destination);
}

TEST_CASE("a segment without a free slot is not copied, either") {
  Loop loop;
  const auto lender = *Sharing::Offer(loop.executor(), kSmallRegion);
  const auto borrower = *Sharing::Offer(loop.executor(), kSmallRegion);
  REQUIRE(lender->Agree(borrower->TakeFiles()) == absl::OkStatus());
  const SegmentBuffer buffer = *lender->Allocate(kPageBytes);
  for (uint32_t i = 0; i < kMaxBorrowedSegments; ++i)
    REQUIRE(lender->Lend(buffer.bytes).has_value());
  const Bytes ordinary(kPageBytes, std::byte{1});
  CHECK_FALSE(lender->Lend(ordinary).has_value());
  const SegmentBuffer next = *lender->Allocate(kPageBytes);  // The block of such a copy.
  CHECK(std::ranges::count(next.bytes, std::byte{0}) == kPageBytes);
}

TEST_CASE("a refused or skipped payload returns its segment") {
  SharingEnds ends(AddOne, NoSegments());
  ends.Connect();
  for (int i = 0; i < 3; ++i) {
    const SegmentBuffer all = ends.Filled(kSmallRegion, 1);
    CHECK(absl::IsInvalidArgument(ends.Call(Sending(all)).status()));
  }
  CHECK(ends.client_observer.copied == 0);
}

TEST_CASE("a borrowed segment outlives the connection, the server and the client") {
  std::optional<IncomingMessage> answer;
  std::optional<ReceivedSegment> seen;
  SegmentBuffer produced;
  {
    SharingEnds ends([&](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
      if (!request.message.segments.empty()) seen = request.message.segments[0];
      co_return co_await AddOne(std::move(request));
    });
    ends.Connect();
    produced = ends.Filled(9'000, 3);
    answer = *ends.Call(Sending(produced));
    ends.client->Stop();
    // The region of an ended connection allocates nothing.
    std::ranges::fill(ends.client->Allocate(9'000).bytes, std::byte{9});
  }
  CHECK(AllAre(answer->segments[0], 4));
  CHECK(AllAre(*seen, 3));
  CHECK(std::ranges::count(produced.bytes, std::byte{3}) == 9'000);
}

TEST_CASE("a call that ends while its request is queued leaves nothing lent") {
  SharingEnds ends(Nothing);
  ends.Connect();
  for (int i = 0; i < 3; ++i) {
    // Small enough to be corked.
    const SegmentBuffer buffer = ends.Filled(8'000, 1);
    const auto late = ends.loop.Run(ends.client->Call(kWork, Sending(buffer), AllocateAll(1),
                                                      In(std::chrono::milliseconds(0))));
    CHECK(absl::IsDeadlineExceeded(late.status()));
  }
  ends.Connect();
  const SegmentBuffer all = ends.Filled(kSmallRegion, 1);
  REQUIRE(ends.Call(Sending(all)).ok());
  CHECK(ends.client_observer.copied == 0);
}

TEST_CASE("memory is shared if the address allows it and both ends can") {
  bool shared = false;
  const auto note = [&](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
    shared = request.sharing != nullptr;
    co_return co_await AddOne(std::move(request));
  };
  const std::string path = UnixPath("picks");
  const auto works = [](SharingEnds& ends) {
    const auto answer = ends.Call(Message({}, {Bytes(10'000, std::byte{1})}));
    return answer.ok() && AllAre(answer->segments[0], 2);
  };
  const auto shares = [&](const std::string& listen, std::string dial, uint64_t region_bytes) {
    SharingEnds ends(note, AllocateAll(1), listen, region_bytes);
    if (dial.ends_with(":0")) {
      dial.pop_back();
      dial += std::to_string(ParseAddress(ends.server.address())->port);
    }
    ends.client.emplace(ends.loop.executor(), dial, TestHello("client"), ClientOptions(), nullptr);
    CHECK(works(ends));
    return shared;
  };
  const std::string shm = "shm://" + path, plain = "unix://" + path, tcp = "127.0.0.1:0";
  CHECK(shares(shm, shm, kSmallRegion));
  CHECK_FALSE(shares(shm, plain, kSmallRegion));
  CHECK_FALSE(shares(plain, shm, kSmallRegion));
  CHECK_FALSE(shares(shm, shm, 0));
  CHECK(shares("auto://" + tcp, "auto://" + tcp, kSmallRegion));
  CHECK_FALSE(shares("auto://" + tcp, "tcp://" + tcp, kSmallRegion));
  CHECK_FALSE(shares(tcp, "auto://" + tcp, kSmallRegion));
}

TEST_CASE("a client accepts answers in frames from a server without shared memory") {
  Loop loop;
  const auto listener =
      Listener::Open(loop.executor(), *ParseAddress("shm://" + UnixPath("plain")));
  REQUIRE(listener.ok());
  Client client(loop.executor(), (*listener)->address(), TestHello("client"), {}, nullptr);
  const auto serve = [&]() -> awaitable<Status> {
    auto socket = co_await (*listener)->Accept();
    SIMURGH_CO_RETURN_IF_ERROR(socket.status());
    testing::RawPeer peer(*std::move(socket));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.ShakeHands(TestHello("server")));
    SIMURGH_CO_ASSIGN_OR_RETURN(const testing::RawFrame request, co_await peer.Read());
    CHECK(request.segments == std::vector<Bytes>{Bytes(10'000, std::byte{6})});
    CHECK_FALSE(request.header.has_borrowed());
    co_return co_await peer.Send(
        testing::Encode(Response(request.header.request_id, {Bytes(5'000, std::byte{7})})));
  };
  const auto call = [&]() -> awaitable<Status> {
    const auto answer = co_await client.Call(kEcho, Message({}, {Bytes(10'000, std::byte{6})}),
                                             AllocateAll(1), Soon());
    SIMURGH_CO_RETURN_IF_ERROR(answer.status());
    CHECK(AllAre(answer->segments[0], 7));
    co_return absl::OkStatus();
  };
  CHECK(loop.Run(Both(serve(), call())) == absl::OkStatus());
}

}  // namespace
}  // namespace simurgh::rpc
