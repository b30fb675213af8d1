// A binary of its own, because it counts every allocation in the process.

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include <catch2/catch.hpp>

#include "services/runtime/rpc_metrics.h"
#include "tests/support/allocation_count.h"
#include "tests/unit/rpc/support.h"

namespace simurgh::rpc {
namespace {

using simurgh::testing::Allocations;

constexpr size_t kLargest = size_t{8} << 20;

// The first bytes of `memory`, as the only place of a message.
Placement Into(std::span<std::byte> memory) {
  return [memory](std::span<const std::byte>, std::span<const uint64_t> lengths) {
    std::vector<IncomingSegment> places;
    for (const uint64_t length : lengths) places.push_back({.bytes = memory.first(length)});
    return StatusOr<std::vector<IncomingSegment>>(std::move(places));
  };
}

// Both ends with memory of their own that they receive into and send from.
struct SteadyEnds {
  explicit SteadyEnds(const std::string& address)
      : server(loop.executor(), TestHello("server"), {}, nullptr) {
    server.Register({.id = kEcho,
                     .placement = Into(at_server),
                     .handle = [this](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
                       OutgoingMessage response;
                       const size_t size = request.message.segments[0].bytes.size();
                       response.segments.push_back({.bytes = std::span(at_server).first(size)});
                       co_return response;
                     }});
    REQUIRE(server.Listen(address) == absl::OkStatus());
    client = std::make_unique<Client>(loop.executor(), server.address(), TestHello("client"),
                                      ClientOptions(), nullptr);
  }

  // What a number of calls with a payload of `size` bytes each way allocate at both ends together.
  Allocations Measure(size_t size, int calls) {
    const auto make = [&]() -> awaitable<bool> {
      bool ok = true;
      for (int i = 0; i < calls; ++i) {
        OutgoingMessage request;
        request.segments.push_back({.bytes = std::span(sent).first(size)});
        const auto response =
            co_await client->Call(kEcho, std::move(request), Into(at_client), Soon());
        ok = ok && response.ok();
      }
      co_return ok;
    };
    static_cast<void>(simurgh::testing::TakeAllocations());
    const bool ok = loop.Run(make());
    const Allocations allocated = simurgh::testing::TakeAllocations();
    REQUIRE(ok);
    REQUIRE(std::equal(sent.begin(), sent.begin() + size, at_client.begin()));
    return allocated;
  }

  testing::Loop loop;
  Bytes sent = Bytes(kLargest, std::byte{7});
  Bytes at_server = Bytes(kLargest), at_client = Bytes(kLargest);
  Server server;
  std::unique_ptr<Client> client;
};

TEST_CASE("a call in steady state allocates nothing in proportion to its payload") {
  const auto path = std::filesystem::temp_directory_path() /
                    ("simurgh-rpc-allocation-" + std::to_string(::getpid()));
  SteadyEnds ends(GENERATE_COPY(std::string("tcp://127.0.0.1:0"), "unix://" + path.string()));
  constexpr int kCalls = 50;
  ends.Measure(kLargest, kCalls);
  for (const size_t size : {size_t{64}, size_t{4'096}, size_t{65'536}, size_t{1} << 20, kLargest}) {
    const Allocations made = ends.Measure(size, kCalls);
    CAPTURE(size, made.count, made.bytes, made.largest);
    // Large payloads take more system calls, and some of these a few bytes: a thousandth at most.
    CHECK(made.bytes / kCalls <= 2'048 + size / 1'000);
    CHECK(made.largest <= 2'048);
  }
}

TEST_CASE("counting calls allocates nothing once their method and code have been met") {
  MetricRegistry registry;
  RpcMetrics metrics(registry, RpcSide::kClient);
  const std::array<Status, 2> endings{absl::OkStatus(), absl::UnavailableError("gone")};
  const auto count = [&](int calls) {
    for (int i = 0; i < calls; ++i) {
      metrics.OnCallStart(kEcho);
      metrics.OnCallEnd({.method = kEcho,
                         .trace = {},
                         .status = endings[i % 2],
                         .duration = std::chrono::microseconds(i),
                         .request_bytes = 1});
    }
  };
  count(2);
  static_cast<void>(simurgh::testing::TakeAllocations());
  count(1'000);
  const Allocations allocated = simurgh::testing::TakeAllocations();
  CHECK(allocated.count == 0);
}

}  // namespace
}  // namespace simurgh::rpc
