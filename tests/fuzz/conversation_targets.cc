// Whole connections: a server that reads fuzzed bytes, and a client that does.

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/check.h"
#include "rpc/client_session.h"
#include "rpc/control.h"
#include "rpc/server_session.h"
#include "rpc/token.h"
#include "tests/fuzz/byte_stream.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {
namespace {

using rpc::FrameKind;
using rpc::asio::awaitable;
using rpc::testing::Encode;
using rpc::testing::RawFrame;

constexpr size_t kMaxSegmentBytes = 65'536;
constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 20;
constexpr uint64_t kPeerBytes = 40'000;

StatusOr<std::vector<rpc::IncomingSegment>> IntoVectors(std::span<const std::byte> /*metadata*/,
                                                        std::span<const uint64_t> lengths) {
  std::vector<rpc::IncomingSegment> destinations;
  for (const uint64_t length : lengths) {
    if (length > kMaxSegmentBytes) return absl::OutOfRangeError("too long");
    const auto owner = std::make_shared<Bytes>(length);
    destinations.push_back({.bytes = *owner, .owner = owner});
  }
  return destinations;
}

// Appends the frames to a seed, as records of one kind.
Bytes WithRecords(SeedWriter seed, uint8_t kind, const std::vector<Bytes>& frames) {
  for (const Bytes& frame : frames) seed.Value(kind).Part(frame);
  return seed.bytes();
}

// The head of a chunked message.
Bytes HeadOfChunked(FrameKind kind, uint64_t id, const std::vector<size_t>& lengths) {
  RawFrame frame;
  frame.header = {.kind = kind, .flags = rpc::kFlagChunked, .request_id = id};
  frame.header.method = kEchoMethod;
  frame.metadata = Bytes(8);
  for (const size_t length : lengths) frame.segments.emplace_back(length);
  return Encode(frame);
}

Bytes Chunk(uint64_t id, size_t length) {
  return Encode({.header = {.kind = FrameKind::kChunk, .request_id = id},
                 .metadata = {},
                 .segments = {Bytes(length)},
                 .borrowed = {}});
}

Bytes Plain(FrameKind kind, uint64_t id, const std::vector<Bytes>& segments = {}) {
  RawFrame frame;
  frame.header = {.kind = kind, .request_id = id};
  if (kind == FrameKind::kRequest) frame.header.method = kEchoMethod;
  if (kind == FrameKind::kError) frame.header.code = 5;
  frame.segments = segments;
  return Encode(frame);
}

Bytes Proof(size_t length) {
  RawFrame frame;
  frame.header.kind = FrameKind::kProof;
  frame.metadata = Bytes(length);
  return Encode(frame);
}

// --- server_conversation: whether the server has a token, then the records that a client sends.

const std::shared_ptr<const rpc::Token>& TestToken() {
  static const auto token = std::make_shared<const rpc::Token>("a token of the fuzz targets");
  return token;
}

// Serves the connection to its end, and checks that the server has closed it and holds nothing.
void RunServer(Input input) {
  SeedReader reader(input);
  const bool has_token = reader.Value<uint8_t>() % 2 != 0;
  rpc::asio::io_context loop;
  const auto core = std::make_shared<rpc::ServerCore>(
      loop.get_executor(), rpc::Hello{.cluster = "fuzz"},
      rpc::ServerOptions{.token = has_token ? TestToken() : nullptr,
                         .max_frame_bytes = kMaxFrameBytes,
                         .peer_bytes = kPeerBytes,
                         .max_requests_per_connection = 8,
                         .max_request_bytes_per_connection = kMaxFrameBytes},
      nullptr);
  core->methods.emplace(
      kEchoMethod,
      rpc::Method{.id = {.number = kEchoMethod, .name = "echo"},
                  .placement = IntoVectors,
                  .handle = [](rpc::Request request) -> awaitable<StatusOr<rpc::OutgoingMessage>> {
                    rpc::OutgoingMessage response;
                    for (rpc::ReceivedSegment& segment : request.message.segments) {
                      response.segments.push_back({segment.bytes, std::move(segment.owner)});
                    }
                    co_return response;
                  }});
  auto session = std::make_shared<rpc::ServerSession>(
      core, std::make_unique<ByteStream>(loop.get_executor(), ReadRecords(reader.rest()), Bytes()),
      rpc::SharingHandshake(false));
  bool ended = false;
  rpc::asio::co_spawn(loop, session->Run(), [&](const std::exception_ptr& thrown) {
    SIMURGH_CHECK(thrown == nullptr);
    ended = true;
    session.reset();  // With its timers.
  });
  loop.run();
  SIMURGH_CHECK(ended);
  SIMURGH_CHECK_EQ(core->requests.running(), size_t{0});
  SIMURGH_CHECK_EQ(core->connections.running(), size_t{0});
  SIMURGH_CHECK(core->sessions.empty());
  SIMURGH_CHECK(core->request_memory->TryEnter(kPeerBytes / 2));
  SIMURGH_CHECK(core->answer_memory->TryEnter(kPeerBytes / 2));
}

std::vector<Bytes> ServerSeeds() {
  const Bytes hello = Encode(rpc::testing::HelloFrame({.cluster = "fuzz"}));
  std::vector<Bytes> every;
  for (const RawFrame& frame : OneOfEachKind()) every.push_back(Encode(frame));
  const std::vector<Bytes> calls{hello, Plain(FrameKind::kRequest, 1, {Bytes(5), Bytes(90)}),
                                 Plain(FrameKind::kRequest, 2), Plain(FrameKind::kCancel, 1),
                                 Plain(FrameKind::kRequest, 3, {Bytes(5'000)})};
  const std::vector<Bytes> chunks{hello,
                                  HeadOfChunked(FrameKind::kRequest, 1, {7'000, 3'000}),
                                  Chunk(1, 6'000),
                                  HeadOfChunked(FrameKind::kRequest, 2, {5'000}),
                                  Plain(FrameKind::kRequest, 3, {Bytes(5)}),
                                  Chunk(1, 4'000),
                                  Plain(FrameKind::kCancel, 2)};
  const std::vector<Bytes> gathered{
      hello, HeadOfChunked(FrameKind::kRequest, 1, {5'000}),
      HeadOfChunked(FrameKind::kRequest, 2, {4'096, 4}),
      Encode(rpc::testing::GatheredChunk({{1, Bytes(5'000)}, {7, Bytes(10)}, {2, Bytes(4'000)}})),
      Chunk(2, 100)};
  std::vector<Bytes> seeds;
  const std::vector<Bytes> proved{Proof(32), hello, Plain(FrameKind::kRequest, 1)};
  for (const uint8_t kind : {kAsItIs, kSealed, kFitted}) {
    for (const auto& frames : {every, calls, chunks, gathered, proved}) {
      seeds.push_back(WithRecords(SeedWriter().Value(uint8_t{0}), kind, frames));
    }
    seeds.push_back(WithRecords(SeedWriter().Value(uint8_t{1}), kind, proved));
  }
  return seeds;
}

// --- client_conversation: the kind of the server's HELLO, then the records that it sends.

constexpr uint8_t kInRecords = 0;
constexpr uint8_t kProperly = 1;
constexpr uint8_t kWithWindow = 2;  // A window for one request at a time.
constexpr uint8_t kToToken = 3;     // In records, to a client with a token.

Bytes HelloOf(uint8_t introduction) {
  if (introduction == kInRecords || introduction == kToToken) return {};
  RawFrame frame;
  frame.metadata =
      ToBytes(rpc::EncodeHello({.cluster = "fuzz"}, {.max_frame_bytes = kMaxFrameBytes},
                               introduction == kWithWindow ? 100 : 0)
                  .bytes);
  return Encode(frame);
}

// One call with its own destinations; counts its result.
awaitable<void> Call(std::shared_ptr<rpc::ClientSession> session, size_t& results) {
  co_await rpc::asio::this_coro::throw_if_cancelled(false);
  if (!session->usable()) {
    ++results;
    co_return;
  }
  rpc::OutgoingMessage request;
  const auto bytes = std::make_shared<const Bytes>(10);
  request.segments.push_back({*bytes, bytes});
  // Without owners, so that a write after the call is a use after free.
  std::vector<rpc::IncomingSegment> destinations;
  rpc::Placement placement =
      [&](std::span<const std::byte> metadata,
          std::span<const uint64_t> lengths) -> StatusOr<std::vector<rpc::IncomingSegment>> {
    SIMURGH_ASSIGN_OR_RETURN(destinations, IntoVectors(metadata, lengths));
    std::vector<rpc::IncomingSegment> borrowed;
    for (const rpc::IncomingSegment& destination : destinations)
      borrowed.push_back({.bytes = destination.bytes});
    return borrowed;
  };
  const rpc::CallOptions options(rpc::Clock::time_point::max());
  const auto response = co_await session->Exchange(kEchoMethod, request, placement, options);
  ++results;
  if (!response.ok()) co_return;
  SIMURGH_CHECK_EQ(response->segments.size(), destinations.size());
  for (size_t i = 0; i < destinations.size(); ++i) {
    SIMURGH_CHECK(response->segments[i].bytes.data() == destinations[i].bytes.data());
    SIMURGH_CHECK_EQ(response->segments[i].bytes.size(), destinations[i].bytes.size());
  }
}

struct Calls {
  static constexpr size_t kCount = 4;  // Their ids are 1 to 4.
  bool introduced = false;
  std::array<size_t, kCount> results{};
  bool ended = false;
};

awaitable<void> Converse(std::unique_ptr<ByteStream> stream,
                         std::shared_ptr<const rpc::Token> token, Calls& calls) {
  ByteStream* const peer = stream.get();
  const auto executor = peer->executor();
  auto session = co_await rpc::ClientSession::Introduce(
      std::move(stream), rpc::SharingHandshake(false), "fuzz", {.cluster = "fuzz"},
      {.token = std::move(token), .max_frame_bytes = kMaxFrameBytes}, rpc::ObserverLink(nullptr),
      rpc::Clock::time_point::max());
  calls.introduced = session.ok();
  if (!session.ok()) co_return;
  for (size_t& results : calls.results) {
    rpc::asio::co_spawn(executor, Call(*session, results), rpc::asio::detached);
  }
  peer->Release();  // The session holds it.
}

// Checks that every call ends with one result and the client closes the connection.
void RunClient(Input input) {
  SeedReader reader(input);
  const auto introduction = static_cast<uint8_t>(reader.Value<uint8_t>() % 4);
  const Bytes hello = HelloOf(introduction);
  const bool proper = !hello.empty();
  const Bytes records = ReadRecords(reader.rest());
  rpc::asio::io_context loop;
  auto stream = std::make_unique<ByteStream>(loop.get_executor(), proper ? hello : records,
                                             proper ? records : Bytes());
  Calls calls;
  const auto token = introduction == kToToken ? TestToken() : nullptr;
  rpc::asio::co_spawn(loop, Converse(std::move(stream), token, calls),
                      [&](const std::exception_ptr& thrown) {
                        SIMURGH_CHECK(thrown == nullptr);
                        calls.ended = true;
                      });
  loop.run();
  SIMURGH_CHECK(calls.ended);
  SIMURGH_CHECK(calls.introduced || !proper);
  for (const size_t results : calls.results) {
    SIMURGH_CHECK_EQ(results, size_t{calls.introduced ? 1U : 0U});
  }
}

std::vector<Bytes> ClientSeeds() {
  const std::vector<Bytes> answers{Plain(FrameKind::kResponse, 1, {Bytes(5), Bytes(90)}),
                                   Plain(FrameKind::kError, 2), Plain(FrameKind::kGoaway, 0),
                                   Plain(FrameKind::kResponse, 3),
                                   Plain(FrameKind::kResponse, 4, {Bytes(5'000)})};
  const std::vector<Bytes> chunks{HeadOfChunked(FrameKind::kResponse, 2, {7'000, 3'000}),
                                  HeadOfChunked(FrameKind::kResponse, 3, {70'000}),
                                  Chunk(2, 6'000),
                                  Plain(FrameKind::kError, 3),
                                  Chunk(3, 40),
                                  Plain(FrameKind::kResponse, 1, {Bytes(5)}),
                                  Chunk(2, 4'000)};
  const std::vector<Bytes> gathered{
      HeadOfChunked(FrameKind::kResponse, 1, {5'000}),
      HeadOfChunked(FrameKind::kResponse, 2, {70'000}),
      HeadOfChunked(FrameKind::kResponse, 3, {4'096}),
      Encode(rpc::testing::GatheredChunk({{3, Bytes(4'096)}, {2, Bytes(100)}, {1, Bytes(5'000)}}))};
  const std::vector<Bytes> twice{HeadOfChunked(FrameKind::kResponse, 1, {5'000}),
                                 Plain(FrameKind::kResponse, 1, {Bytes(5)}), Chunk(1, 5'000)};
  std::vector<Bytes> introduced = answers;
  introduced.insert(introduced.begin(), HelloOf(kProperly));
  const std::vector<Bytes> refused{Plain(FrameKind::kError, 0)};
  const std::vector<Bytes> unproved{Proof(64), HelloOf(kProperly)};
  std::vector<Bytes> seeds;
  for (const uint8_t kind : {kAsItIs, kSealed, kFitted}) {
    seeds.push_back(WithRecords(SeedWriter().Value(kToToken), kind, unproved));
    for (const auto& frames : {answers, chunks, gathered, twice}) {
      for (const uint8_t introduction : {kProperly, kWithWindow}) {
        seeds.push_back(WithRecords(SeedWriter().Value(introduction), kind, frames));
      }
    }
    for (const auto& frames : {introduced, refused}) {
      seeds.push_back(WithRecords(SeedWriter().Value(kInRecords), kind, frames));
    }
  }
  return seeds;
}

}  // namespace

std::vector<Target> ConversationTargets() {
  return {{"server_conversation", RunServer, ServerSeeds},
          {"client_conversation", RunClient, ClientSeeds}};
}

}  // namespace simurgh::fuzz
