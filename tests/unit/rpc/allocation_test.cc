// A separate program, because it counts every allocation in the process.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "services/runtime/rpc_setup.h"
#include "tests/support/allocation_count.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using simurgh::testing::Allocations;

constexpr size_t kLargest = size_t{8} << 20;
constexpr int kInFlight = 8;

// Limit of the bytes that a call allocates at both ends, for any payload. Frames, payloads and
// coroutines take 0.5 to 1.2 KiB. Each write that fills a socket takes 64 bytes: 1 KiB for 16 MiB
// over a Unix socket.
constexpr uint64_t kCallBytes = 4'096;
// A queue of frames may double again.
constexpr uint64_t kLargestBytes = 8'192;

// The first bytes of `memory`, as the only destination of a message.
Placement Into(std::span<std::byte> memory) {
  return [memory](std::span<const std::byte>, std::span<const uint64_t> lengths) {
    std::vector<IncomingSegment> destinations;
    for (const uint64_t length : lengths) destinations.push_back({.bytes = memory.first(length)});
    return StatusOr<std::vector<IncomingSegment>>(std::move(destinations));
  };
}

// Checks the first and last values; other tests check all.
void Mark(std::span<std::byte> bytes, std::byte mark) { bytes.front() = bytes.back() = mark; }
bool IsMarked(std::span<const std::byte> bytes, size_t size, std::byte mark) {
  return bytes.size() == size && bytes.front() == mark && bytes.back() == mark;
}

// The memory of tensors at both ends.
enum class Tensors {
  kOwn,     // Ordinary memory, allocated once.
  kInPlace  // Produced in Allocate(), received into kAllocate.
};

// A server and a client that repeat the same calls.
class SteadyEnds {
 public:
  SteadyEnds(const std::string& address, Tensors tensors)
      : tensors_(tensors), server_(loop_.executor(), TestHello("server"), {}, nullptr) {
    server_.Register({.id = kEcho,
                      .placement = PlacementIn(at_server_),
                      .handle = [this](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
                        const size_t size = request.message.segments[0].bytes.size();
                        OutgoingMessage response;
                        response.segments.push_back(tensors_ == Tensors::kOwn
                                                        ? Own(size)
                                                        : Produced(request.Allocate(size)));
                        co_return response;
                      }});
    REQUIRE(server_.Listen(address) == absl::OkStatus());
    client_ = std::make_unique<Client>(loop_.executor(), server_.address(), TestHello("client"),
                                       ClientOptions(), nullptr);
  }

  // Bytes that both ends allocate for calls by kInFlight concurrent callers, with `size` bytes of
  // payload in each direction.
  Allocations Measure(size_t size, int calls) {
    static_cast<void>(simurgh::testing::TakeAllocations());
    std::vector<awaitable<Status>> callers;
    for (int i = 0; i < kInFlight; ++i) callers.push_back(Make(size, calls));
    const Status made = loop_.Run(WhenAll(std::move(callers)));
    const Allocations allocated = simurgh::testing::TakeAllocations();
    REQUIRE(made == absl::OkStatus());
    return allocated;
  }

 private:
  static constexpr std::byte kMark{7};

  Placement PlacementIn(std::span<std::byte> memory) const {
    return tensors_ == Tensors::kOwn ? Into(memory) : AllocateAll(1);
  }
  OutgoingSegment Own(size_t size) {
    Mark(std::span(sent_).first(size), kMark);
    return {.bytes = std::span(sent_).first(size)};
  }
  static OutgoingSegment Produced(const SegmentBuffer& buffer) {
    Mark(buffer.bytes, kMark);
    return buffer.segment();
  }

  [[nodiscard]] awaitable<Status> Make(size_t size, int calls) {
    for (int i = 0; i < calls; ++i) {
      OutgoingMessage request;
      request.segments.push_back(tensors_ == Tensors::kOwn ? Own(size)
                                                           : Produced(client_->Allocate(size)));
      SIMURGH_CO_ASSIGN_OR_RETURN(
          const IncomingMessage response,
          co_await client_->Call(kEcho, std::move(request), PlacementIn(at_client_), Soon()));
      if (!IsMarked(response.segments[0].bytes, size, kMark)) {
        co_return absl::DataLossError("another tensor");
      }
    }
    co_return absl::OkStatus();
  }

  const Tensors tensors_;
  testing::Loop loop_;
  // Shared by all calls in flight, which do not read it.
  Bytes sent_ = Bytes(kLargest), at_server_ = Bytes(kLargest), at_client_ = Bytes(kLargest);
  Server server_;
  std::unique_ptr<Client> client_;
};

struct Way {
  std::string address;
  Tensors tensors;
};

TEST_CASE("a call in steady state allocates nothing in proportion to its payload") {
  const std::string path = UnixPath("allocation");
  const Way way =
      GENERATE_COPY(Way{"tcp://127.0.0.1:0", Tensors::kOwn}, Way{"unix://" + path, Tensors::kOwn},
                    Way{"tcp://127.0.0.1:0", Tensors::kInPlace},
                    Way{"shm://" + path, Tensors::kOwn}, Way{"shm://" + path, Tensors::kInPlace});
  SteadyEnds ends(way.address, way.tensors);
  constexpr int kCalls = 50;
  for (const size_t size : {size_t{64}, size_t{4'096}, size_t{65'536}, size_t{1} << 20, kLargest}) {
    ends.Measure(size, kCalls);  // Grows queues and pools.
    const Allocations made = ends.Measure(size, kCalls);
    CAPTURE(way.address, way.tensors == Tensors::kInPlace, size, made.count, made.bytes,
            made.largest);
    CHECK(made.bytes / (uint64_t{kCalls} * kInFlight) <= kCallBytes);
    CHECK(made.largest <= kLargestBytes);
  }
}

TEST_CASE("counting calls allocates nothing for known methods and codes") {
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
