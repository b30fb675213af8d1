#include "services/embedding_ps/row_methods.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "services/api/row_codec.h"

namespace simurgh {
namespace {

Status CheckMap(uint64_t theirs, uint64_t ours) {
  if (theirs == ours) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("rows: the request uses bucket map ", theirs, ", this server ", ours,
                   "; restart the cluster with one configuration"));
}

template <typename T>
rpc::SegmentDestination<T> LeaseFor(BufferPool& buffers, uint64_t count) {
  auto buffer = buffers.Lease(count * sizeof(T));
  const std::span<T> values = buffer->as<T>(count);
  return {values, std::move(buffer)};
}

Status CheckLength(const char* segment, uint64_t length, uint64_t described) {
  if (length == described) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rows: the request has ", length, " ", segment,
                                                 ", its groups describe ", described));
}

// Owns the memory of a call while it runs.
template <typename Message, typename Request>
struct CallOwner {
  Message message;
  rpc::RequestOf<Request> request;
  rpc::SegmentBuffer rows = {};
};

template <typename Method>
using Reply = rpc::awaitable<StatusOr<rpc::Outgoing<typename Method::Response>>>;

// The unit of fairness is the connection.
uint64_t ClientOf(const rpc::Hello& peer) { return reinterpret_cast<uintptr_t>(&peer); }

// Rows are gathered into the response buffer, which a client on shared memory reads in place.
Reply<api::PullRows> HandlePull(rpc::RequestOf<api::PullRows::Request> request,
                                ParameterServer& server) {
  using Owner = CallOwner<api::PullRowsMessage, api::PullRows::Request>;
  SIMURGH_CO_ASSIGN_OR_RETURN(auto message, api::Decode(request.table(), server.partition_count()));
  const auto owner = std::make_shared<Owner>(Owner{std::move(message), std::move(request)});
  owner->rows = owner->request.Allocate(api::PayloadOf(owner->message.groups).bytes);
  PullRowsCall call{.purpose = owner->message.purpose,
                    .position = owner->message.position,
                    .acknowledged_steps = owner->message.acknowledged_steps,
                    .groups = owner->message.groups,
                    .ids = owner->request.segment<"ids">(),
                    .rows = owner->rows.bytes,
                    .owner = owner,
                    .client = ClientOf(owner->request.peer())};
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const PullReport report,
      co_await server.Pull(std::move(call), {owner->request.deadline(), owner->request.trace()}));
  co_return api::Encode(report, {owner->rows.bytes, owner->rows.owner});
}

Reply<api::PushRows> HandlePush(rpc::RequestOf<api::PushRows::Request> request,
                                ParameterServer& server) {
  using Owner = CallOwner<api::PushRowsMessage, api::PushRows::Request>;
  SIMURGH_CO_ASSIGN_OR_RETURN(auto message, api::Decode(request.table(), server.partition_count()));
  const auto owner = std::make_shared<Owner>(Owner{std::move(message), std::move(request)});
  PushRowsCall call{.position = owner->message.position,
                    .groups = owner->message.groups,
                    .learning_rates = owner->message.learning_rates,
                    .ids = owner->request.segment<"ids">(),
                    .gradients = owner->request.segment<"gradients">(),
                    .owner = owner,
                    .client = ClientOf(owner->request.peer())};
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const PushReport report,
      co_await server.Push(std::move(call), {owner->request.deadline(), owner->request.trace()}));
  co_return api::Encode(report);
}

// Checks everything before the payload is read, and returns its size.
template <typename Request>
StatusOr<api::RowPayload> Examine(const Request& request, const ParameterServer& server,
                                  uint64_t map_version) {
  SIMURGH_RETURN_IF_ERROR(CheckMap(request.map_version(), map_version));
  SIMURGH_ASSIGN_OR_RETURN(const auto message, api::Decode(request, server.partition_count()));
  SIMURGH_RETURN_IF_ERROR(server.Check(message.groups));
  return api::PayloadOf(message.groups);
}

}  // namespace

// Ids are copied into pooled memory because a table requires that they do not change meanwhile.
// Gradients may stay in memory shared with the client.
void RegisterRowMethods(rpc::Server& server, ParameterServer& rows, BufferPool& buffers,
                        uint64_t map_version) {
  using PullPlaces = rpc::Destinations<api::PullRows::Request>;
  const auto place_pull =
      [&rows, &buffers, map_version](
          const api::wire::PullRowsRequest& request,
          const api::PullRows::Request::Counts& counts) -> StatusOr<PullPlaces> {
    SIMURGH_ASSIGN_OR_RETURN(const auto payload, Examine(request, rows, map_version));
    SIMURGH_RETURN_IF_ERROR(CheckLength("ids", counts[0], payload.ids));
    return PullPlaces{LeaseFor<uint64_t>(buffers, counts[0])};
  };
  rpc::Register(server, api::kPullRows, place_pull,
                [&rows](auto request) { return HandlePull(std::move(request), rows); });

  using PushPlaces = rpc::Destinations<api::PushRows::Request>;
  const auto place_push =
      [&rows, &buffers, map_version](
          const api::wire::PushRowsRequest& request,
          const api::PushRows::Request::Counts& counts) -> StatusOr<PushPlaces> {
    SIMURGH_ASSIGN_OR_RETURN(const auto payload, Examine(request, rows, map_version));
    const auto [ids, gradients] = counts;
    SIMURGH_RETURN_IF_ERROR(CheckLength("ids", ids, payload.ids));
    SIMURGH_RETURN_IF_ERROR(CheckLength("bytes of gradients", gradients, payload.bytes));
    return PushPlaces{LeaseFor<uint64_t>(buffers, ids),
                      rpc::SegmentDestination<std::byte>::kAllocate};
  };
  rpc::Register(server, api::kPushRows, place_push,
                [&rows](auto request) { return HandlePush(std::move(request), rows); });
}

}  // namespace simurgh
