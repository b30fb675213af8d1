#include "rpc/method.h"

#include <type_traits>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/ends.h"
#include "tests/unit/rpc/method_generated.h"

namespace simurgh::rpc {
namespace {

using ScaleRequest =
    MessageOf<test::ScaleRequest, Segment<"values", float>, Segment<"ids", uint64_t>>;
using ScaleResponse = MessageOf<test::ScaleResponse, Segment<"scaled", float>>;
constexpr MethodOf<ScaleRequest, ScaleResponse> kScale{.number = 7, .name = "scale"};

using Plain = MessageOf<NoTable>;
constexpr MethodOf<Plain, Plain> kPing{.number = 8, .name = "ping"};
constexpr MethodOf<Plain, MessageOf<NoTable, Segment<"half", uint16_t>>> kHalves{.number = 9,
                                                                                 .name = "halves"};

static_assert(ScaleRequest::IndexOf<"values">() == 0);
static_assert(ScaleRequest::IndexOf<"ids">() == 1);
static_assert(std::is_same_v<ScaleRequest::Element<"ids">, uint64_t>);
static_assert(std::is_trivially_destructible_v<decltype(kScale)>);

Outgoing<ScaleRequest> NewRequest(float factor, std::span<const float> values,
                                  std::span<const uint64_t> ids) {
  flatbuffers::FlatBufferBuilder builder;
  const auto label = builder.CreateString("x");
  const auto root = test::CreateScaleRequest(builder, factor, label);
  return {builder, root, {values}, {ids}};
}

// Multiplies. The placement refuses a factor of 0, the handler a factor of 1.
class ScaleServer {
 public:
  explicit ScaleServer(testing::Loop& loop)
      : server(loop.executor(), TestHello("server"), {}, nullptr) {
    const auto destination =
        [this](const test::ScaleRequest& request,
               const ScaleRequest::Counts& counts) -> StatusOr<Destinations<ScaleRequest>> {
      if (request.factor() == 0) return absl::OutOfRangeError("factor 0");
      values.resize(counts[ScaleRequest::IndexOf<"values">()]);
      ids.resize(counts[1]);
      return Destinations<ScaleRequest>{{values}, {ids}};
    };
    const auto handle =
        [this](RequestOf<ScaleRequest> request) -> awaitable<StatusOr<Outgoing<ScaleResponse>>> {
      ++handled;
      seen = std::move(request);
      const float factor = seen.table().factor();
      if (factor == 1) co_return absl::FailedPreconditionError("factor 1");
      CHECK(seen.segment<"values">().data() == values.data());
      const auto scaled = std::make_shared<std::vector<float>>();
      for (const float value : seen.segment<"values">()) scaled->push_back(factor * value);
      flatbuffers::FlatBufferBuilder builder;
      const auto root = test::CreateScaleResponse(builder, static_cast<uint32_t>(ids.size()));
      co_return Outgoing<ScaleResponse>(builder, root, {*scaled, scaled});
    };
    Register(server, kScale, destination, handle);
    Register(server, kPing, [](RequestOf<Plain>) -> awaitable<StatusOr<Outgoing<Plain>>> {
      co_return Outgoing<Plain>();
    });
    REQUIRE(server.Listen("127.0.0.1:0") == absl::OkStatus());
  }

  std::vector<float> values;
  std::vector<uint64_t> ids;
  RequestOf<ScaleRequest> seen;
  int handled = 0;
  Server server;
};

struct TypedEnds {
  TypedEnds()
      : scale(loop),
        client(loop.executor(), scale.server.address(), TestHello("client"), {}, nullptr) {}

  testing::Loop loop;
  ScaleServer scale;
  Client client;
};

TEST_CASE("a typed call passes table and tensors both ways, into the named destinations") {
  TypedEnds ends;
  const std::vector<float> values{1, 2, 3, 4};
  const std::vector<uint64_t> ids{10, 20};
  std::vector<float> scaled(4);
  const CallOptions options(Soon(), {.trace_id = 5, .span_id = 6});
  const auto response =
      ends.loop.Run(Call(ends.client, kScale, NewRequest(2.5F, values, ids), {{scaled}}, options));
  REQUIRE(response.status() == absl::OkStatus());
  CHECK(scaled == std::vector<float>{2.5F, 5, 7.5F, 10});
  CHECK(response->segment<"scaled">().data() == scaled.data());
  CHECK(response->segment<"scaled">().size() == 4);
  CHECK(response->table().count() == 2);
  CHECK(ends.scale.ids == ids);
  CHECK(ends.scale.seen.table().label()->str() == "x");
  CHECK(ends.scale.seen.trace().trace_id == 5);
  CHECK(ends.scale.seen.deadline() < Clock::time_point::max());
  CHECK(ends.scale.seen.peer().role == "client");
  CHECK(ends.loop.Run(Call(ends.client, kPing, Outgoing<Plain>(), Soon())).ok());
}

TEST_CASE("a caller may choose the destinations by the response's table") {
  TypedEnds ends;
  const std::vector<float> values{1, 2, 3};
  const auto scaled = std::make_shared<std::vector<float>>();
  bool refuse = false;
  const auto destination =
      [&](const test::ScaleResponse& table,
          const ScaleResponse::Counts& counts) -> StatusOr<Destinations<ScaleResponse>> {
    if (refuse) return absl::ResourceExhaustedError("no room");
    CHECK(table.count() == 0);
    scaled->resize(counts[0]);
    return Destinations<ScaleResponse>{{*scaled, scaled}};
  };
  const auto call = [&] {
    return ends.loop.Run(Call(ends.client, kScale, NewRequest(2, values, {}), destination, Soon()));
  };
  const auto response = call();
  REQUIRE(response.status() == absl::OkStatus());
  CHECK(*scaled == std::vector<float>{2, 4, 6});
  CHECK(response->owner<"scaled">() == scaled);
  refuse = true;
  CHECK(absl::IsResourceExhausted(call().status()));
}

TEST_CASE("errors of placement and handler arrive unchanged") {
  TypedEnds ends;
  const auto call = [&](float factor) {
    std::vector<float> scaled(1);
    return ends.loop
        .Run(Call(ends.client, kScale, NewRequest(factor, std::vector<float>{1}, {}), {{scaled}},
                  Soon()))
        .status();
  };
  const Status refused = call(0);
  CHECK(refused.code() == absl::StatusCode::kOutOfRange);
  CHECK(ends.scale.handled == 0);
  const Status failed = call(1);
  CHECK(absl::IsFailedPrecondition(failed));
  CHECK(ends.scale.handled == 1);
}

// What a placement has read; counts its copies that are alive.
struct Reading {
  explicit Reading(float read, int* alive) : factor(read), count(alive, [](int* n) { --*n; }) {
    ++*alive;
  }
  float factor;
  std::shared_ptr<int> count;
};

TEST_CASE("a handler gets what the placement has read, which ends with the request") {
  testing::Loop loop;
  Server server(loop.executor(), TestHello("server"), {}, nullptr);
  std::vector<float> values(2);
  std::vector<uint64_t> ids(1);
  int alive = 0;
  std::vector<float> seen;
  using WithReading = PlacedWith<ScaleRequest, Reading>;
  const auto place = [&](const test::ScaleRequest& request,
                         const ScaleRequest::Counts&) -> StatusOr<WithReading> {
    if (request.factor() == 0) return absl::OutOfRangeError("factor 0");
    return WithReading{{{values}, {ids}}, Reading(request.factor(), &alive)};
  };
  Register(server, kScale, place,
           [&](RequestOf<ScaleRequest> request,
               Reading& reading) -> awaitable<StatusOr<Outgoing<ScaleResponse>>> {
             seen.push_back(reading.factor);
             CHECK(alive == 1);
             CHECK(request.segment<"ids">()[0] == 9);
             if (reading.factor == 1) co_return absl::FailedPreconditionError("factor 1");
             flatbuffers::FlatBufferBuilder builder;
             const auto root = test::CreateScaleResponse(builder, 1);
             co_return Outgoing<ScaleResponse>(builder, root, {values});
           });
  REQUIRE(server.Listen("127.0.0.1:0") == absl::OkStatus());
  Client client(loop.executor(), server.address(), TestHello("client"), {}, nullptr);
  std::vector<float> scaled(2);
  const auto call = [&](float factor) {
    const std::vector<float> sent{1, 2};
    const std::vector<uint64_t> nine{9};
    return loop.Run(Call(client, kScale, NewRequest(factor, sent, nine), {{scaled}}, Soon()))
        .status();
  };
  CHECK(call(3) == absl::OkStatus());
  CHECK(call(0).code() == absl::StatusCode::kOutOfRange);
  CHECK(absl::IsFailedPrecondition(call(1)));
  CHECK(call(5) == absl::OkStatus());
  CHECK(seen == std::vector<float>{3, 1, 5});
  CHECK(alive == 0);
}

TEST_CASE("a malformed request is refused, and its handler does not start") {
  TypedEnds ends;
  const auto refusal = [&](Bytes metadata, std::vector<Bytes> segments) {
    const Status status = ends.loop
                              .Run(ends.client.Call(kScale, Message(std::move(metadata), segments),
                                                    IntoVectors(), Soon()))
                              .status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(ends.scale.handled == 0);
    return std::string(status.message());
  };
  const auto good = NewRequest(2, {}, {});
  const auto bytes = good.message().metadata.bytes;
  const Bytes table(bytes.begin(), bytes.end());
  Bytes damaged = table;
  damaged[0] = std::byte{0xff};
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(test::CreateScaleResponse(builder, 3));  // Without the label.
  const OutgoingSegment other = TakeMetadata(builder);

  for (const Bytes& metadata : {damaged, Bytes(), Bytes(3), Bytes(table.begin(), table.end() - 4),
                                Bytes(other.bytes.begin(), other.bytes.end())}) {
    CHECK_THAT(refusal(metadata, {Bytes(4), Bytes(8)}),
               Catch::Contains("scale: the metadata is malformed"));
  }
  CHECK_THAT(refusal(table, {Bytes(4)}), Catch::Contains("1 segments, expected 2"));
  CHECK_THAT(refusal(table, {Bytes(4), Bytes(8), Bytes(0)}), Catch::Contains("3 segments"));
  CHECK_THAT(refusal(table, {Bytes(4), Bytes(9)}), Catch::Contains("segment 'ids' has 9 bytes"));
}

TEST_CASE("a malformed response fails the call with INTERNAL") {
  testing::Loop loop;
  Server server(loop.executor(), TestHello("server"), {}, nullptr);
  OutgoingMessage answer;
  server.Register(
      {.id = kScale,
       .placement = IntoVectors(),
       .handle = [&](Request) -> awaitable<StatusOr<OutgoingMessage>> { co_return answer; }});
  server.Register({.id = kHalves,
                   .placement = NoSegments(),
                   .handle = [&](Request) -> awaitable<StatusOr<OutgoingMessage>> {
                     co_return Message({}, {Bytes(5)});
                   }});
  REQUIRE(server.Listen("127.0.0.1:0") == absl::OkStatus());
  Client client(loop.executor(), server.address(), TestHello("client"), {}, nullptr);
  std::vector<float> scaled(2);
  const auto failure = [&](Bytes metadata, const std::vector<Bytes>& segments) {
    answer = Message(std::move(metadata), segments);
    const Status status =
        loop.Run(Call(client, kScale, NewRequest(2, {}, {}), {{scaled}}, Soon())).status();
    CHECK(absl::IsInternal(status));
    return std::string(status.message());
  };
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(test::CreateScaleResponse(builder, 3));
  const OutgoingSegment good = TakeMetadata(builder);
  const Bytes table(good.bytes.begin(), good.bytes.end());
  CHECK_THAT(failure(Bytes(7), {Bytes(8)}), Catch::Contains("scale: the metadata is malformed"));
  CHECK_THAT(failure(table, {}), Catch::Contains("0 segments, expected 1"));
  CHECK_THAT(failure(table, {Bytes(12)}), Catch::Contains("'scaled' has 3 elements, expected 2"));
  CHECK_THAT(failure(table, {Bytes(6)}), Catch::Contains("not a multiple of its element size 4"));
  const auto anywhere = [](const auto&) -> StatusOr<Destinations<decltype(kHalves)::Response>> {
    return absl::AbortedError("must not be asked");
  };
  CHECK(absl::IsInternal(
      loop.Run(Call(client, kHalves, Outgoing<Plain>(), anywhere, Soon())).status()));
}

}  // namespace
}  // namespace simurgh::rpc
