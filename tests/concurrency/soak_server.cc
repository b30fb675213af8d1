#include "tests/concurrency/soak_server.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace simurgh::rpc {
namespace {

constexpr size_t kIdleBytes = size_t{64} << 20;

// The response owns its metadata. Segments are in memory of the library or in the static pool of
// random bytes.
OutgoingMessage ResponseOf(const CallPlan& plan, uint64_t id, const Request& request) {
  OutgoingMessage response;
  const auto metadata = std::make_shared<const std::vector<std::byte>>(
      MetadataOf(plan.response, id, Direction::kResponse));
  response.metadata = {.bytes = *metadata, .owner = metadata};
  for (size_t i = 0; i < plan.response.segments.size(); ++i) {
    const std::span<const std::byte> content =
        ContentOf(plan.response, id, Direction::kResponse, i);
    if (plan.response.in_place) {
      const SegmentBuffer buffer = request.Allocate(content.size());
      std::ranges::copy(content, buffer.bytes.begin());
      response.segments.push_back(buffer.segment());
    } else {
      response.segments.push_back({.bytes = content});
    }
  }
  return response;
}

}  // namespace

Hello SoakHello(std::string role) { return {.cluster = "soak", .role = std::move(role)}; }

SoakServer::SoakServer(asio::any_io_executor executor, uint64_t seed, Ledger& ledger,
                       const ServerOptions& options)
    : executor_(std::move(executor)),
      seed_(seed),
      ledger_(ledger),
      buffers_(kIdleBytes),
      keepsakes_(seed, Direction::kRequest, ledger),
      server_(executor_, SoakHello("server"), options, nullptr) {
  server_.Register({.id = kSoakMethod,
                    .placement = [this](auto metadata,
                                        auto lengths) { return PlaceSegments(metadata, lengths); },
                    .handle = [this](Request request) { return Handle(std::move(request)); }});
}

StatusOr<Placed> SoakServer::PlaceSegments(std::span<const std::byte> metadata,
                                           std::span<const uint64_t> lengths) {
  const std::optional<uint64_t> id = IdOf(metadata);
  if (!id) return absl::DataLossError("a request without its number");
  const CallPlan plan = PlanOf(seed_, *id);
  if (plan.act == Act::kRefuseRequest) return absl::OutOfRangeError(FailureText(*id));
  if (plan.request.allocate) return AllocateAll(lengths.size())(metadata, lengths);
  std::vector<IncomingSegment> destinations;
  for (const uint64_t length : lengths) {
    auto buffer = buffers_.Lease(length);
    const std::span<std::byte> bytes = buffer->bytes().first(length);
    destinations.push_back({.bytes = bytes, .owner = std::move(buffer)});
  }
  return destinations;
}

awaitable<StatusOr<OutgoingMessage>> SoakServer::Handle(Request request) {
  const uint64_t id = *IdOf(request.message.metadata);
  ledger_.OnExecuted(id);
  if (request.sharing != nullptr) ++sharing_requests_;
  const CallPlan plan = PlanOf(seed_, id);
  const std::string difference = Compare(plan.request, id, Direction::kRequest, request.message);
  if (!difference.empty()) ledger_.Fault(id, "request: " + difference);

  for (uint32_t i = 0; i < plan.hops; ++i) co_await asio::post(asio::use_awaitable);
  switch (plan.act) {
    case Act::kAnswer:
    case Act::kRefuseResponse:
      co_return Answer(plan, id, std::move(request));
    case Act::kFail:
      co_return absl::FailedPreconditionError(FailureText(id));
    case Act::kThrow:
      throw std::runtime_error(FailureText(id));
    case Act::kHang: {
      asio::steady_timer never(executor_, Clock::time_point::max());
      co_await never.async_wait(asio::use_awaitable);
      break;
    }
    default:
      ledger_.Fault(id, "a handler got a call that must be refused");
  }
  co_return absl::InternalError("the handler was not cancelled");
}

OutgoingMessage SoakServer::Answer(const CallPlan& plan, uint64_t id, Request request) {
  OutgoingMessage response = ResponseOf(plan, id, request);
  if (plan.request.allocate) keepsakes_.Keep(id, std::move(request.message));
  return response;
}

}  // namespace simurgh::rpc
