// PADDING frames.

#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Encode;
using testing::Loop;
using testing::RawFrame;
using testing::RawPeer;

RawFrame Padding(size_t bytes) {
  RawFrame frame;
  frame.header.kind = FrameKind::kPadding;
  frame.metadata = Bytes(bytes, std::byte{0xff});
  return frame;
}

TEST_CASE("a server ignores padding") {
  Ends ends;
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await Enter(ends));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(
        EncodeAll({Padding(0), EchoRequest(1, {Bytes(10)}), Padding(kMaxPaddingBytes), Padding(1),
                   EchoRequest(2, {Bytes(5'000)}), Padding(100)})));
    for (uint64_t id = 1; id <= 2; ++id) {
      SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame answer, co_await peer.Read());
      CHECK(answer.header.kind == FrameKind::kResponse);
      CHECK(answer.header.request_id == id);
    }
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(talk()) == absl::OkStatus());
  CHECK(ends.observer.closes.empty());
}

TEST_CASE("a client ignores padding") {
  Loop loop;
  RawServer raw(loop);
  const auto serve = [&]() -> awaitable<Status> {
    RawPeer peer = co_await raw.Accept();
    for (const size_t bytes : {10, 5'000}) {
      SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame request, co_await peer.Read());
      SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(
          EncodeAll({Padding(100), Response(request.header.request_id, {Bytes(bytes)}),
                     Padding(kMaxPaddingBytes)})));
    }
    co_return absl::OkStatus();
  };
  const auto call = [&]() -> awaitable<Status> {
    for (const size_t bytes : {10, 5'000}) {
      const auto answer = co_await raw.client.Call(kEcho, Message({}), IntoVectors(), Soon());
      SIMURGH_CO_RETURN_IF_ERROR(answer.status());
      CHECK((Segments(*answer) == std::vector<Bytes>{Bytes(bytes)}));
    }
    co_return absl::OkStatus();
  };
  CHECK(loop.Run(Both(serve(), call())) == absl::OkStatus());
}

TEST_CASE("a hint promises as much small data as the last batch began with; padding keeps it") {
  Ends ends;
  const auto talk = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await Enter(ends));
    constexpr size_t kSmall = 600;  // More than a HELLO.
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(EchoRequest(1, {Bytes(kSmall)}))));
    SIMURGH_CO_ASSIGN_OR_RETURN(RawFrame answer, co_await peer.Read());
    CHECK(answer.header.request_id == 1);
    CHECK(answer.header.read_ahead == FrameBytes(answer.header));

    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(EchoRequest(2, {Bytes(5'000)}))));
    SIMURGH_CO_ASSIGN_OR_RETURN(answer, co_await peer.ReadAny());
    CHECK(answer.header.kind == FrameKind::kPadding);
    CHECK(FrameBytes(answer.header) == kSmall);  // Instead of the small payload.
    SIMURGH_CO_ASSIGN_OR_RETURN(answer, co_await peer.ReadAny());
    CHECK(answer.header.request_id == 2);
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(talk()) == absl::OkStatus());
}

}  // namespace
}  // namespace simurgh::rpc
