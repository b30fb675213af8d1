#include "tests/concurrency/soak_server.h"

#include <stdexcept>
#include <utility>

#include "rpc/error.h"

namespace simurgh::rpc {
namespace {

constexpr size_t kIdleBytes = size_t{64} << 20;

// Owns its metadata; its segments lie in the pool of random bytes, which outlives all.
OutgoingMessage ResponseOf(const CallPlan& plan, uint64_t id) {
  OutgoingMessage response;
  const auto metadata = std::make_shared<const std::vector<std::byte>>(
      MetadataOf(plan.response, id, Direction::kResponse));
  response.metadata = {.bytes = *metadata, .owner = metadata};
  for (size_t i = 0; i < plan.response.segments.size(); ++i) {
    response.segments.push_back({ContentOf(plan.response, id, Direction::kResponse, i)});
  }
  return response;
}

}  // namespace

Hello SoakHello(std::string role) { return {.cluster = "soak", .role = std::move(role)}; }

SoakServer::SoakServer(asio::any_io_executor executor, uint64_t seed, Ledger& ledger)
    : executor_(std::move(executor)),
      seed_(seed),
      ledger_(ledger),
      buffers_(kIdleBytes),
      server_(executor_, SoakHello("server"), {}, nullptr) {
  server_.Register(
      {.id = kSoakMethod,
       .placement = [this](auto metadata, auto lengths) { return Place(metadata, lengths); },
       .handle = [this](Request request) { return Handle(std::move(request)); }});
}

StatusOr<std::vector<IncomingSegment>> SoakServer::Place(std::span<const std::byte> metadata,
                                                         std::span<const uint64_t> lengths) {
  const std::optional<uint64_t> id = IdOf(metadata);
  if (!id) return absl::DataLossError("a request without its number");
  if (PlanOf(seed_, *id).act == Act::kRefuseRequest) {
    return absl::OutOfRangeError(FailureText(*id));
  }
  std::vector<IncomingSegment> places;
  for (const uint64_t length : lengths) {
    auto buffer = buffers_.Lease(length);
    const std::span<std::byte> bytes = buffer->bytes().first(length);
    places.push_back({.bytes = bytes, .owner = std::move(buffer)});
  }
  return places;
}

awaitable<StatusOr<OutgoingMessage>> SoakServer::Handle(Request request) {
  const uint64_t id = *IdOf(request.message.metadata);
  ledger_.OnExecuted(id);
  const CallPlan plan = PlanOf(seed_, id);
  const std::string difference = Compare(plan.request, id, Direction::kRequest, request.message);
  if (!difference.empty()) ledger_.Fault(id, "request: " + difference);

  for (uint32_t i = 0; i < plan.hops; ++i) co_await asio::post(asio::use_awaitable);
  switch (plan.act) {
    case Act::kAnswer:
    case Act::kRefuseResponse:
      co_return ResponseOf(plan, id);
    case Act::kFail:
      co_return WithDetail(absl::FailedPreconditionError(FailureText(id)), FailureDetail(id));
    case Act::kThrow:
      throw std::runtime_error(FailureText(id));
    case Act::kHang: {
      asio::steady_timer never(executor_, Clock::time_point::max());
      co_await never.async_wait(asio::use_awaitable);
      break;
    }
    default:
      ledger_.Fault(id, "a handler got a call that had to be refused");
  }
  co_return absl::InternalError("hung and was not cancelled");
}

}  // namespace simurgh::rpc
