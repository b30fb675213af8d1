#include "services/embedding_ps/row_methods.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "services/api/row_codec.h"

namespace simurgh {
namespace {

Status CheckMap(uint64_t theirs, uint64_t ours) {
  if (theirs == ours) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("rows: the request goes by bucket map ", theirs, ", this server by ", ours,
                   "; restart the cluster with one configuration"));
}

// A lease of the pool for `count` values.
template <typename T>
rpc::SegmentPlace<T> Room(BufferPool& buffers, uint64_t count) {
  auto buffer = buffers.Lease(count * sizeof(T));
  const std::span<T> values = buffer->as<T>(count);
  return {values, std::move(buffer)};
}

Status CheckCount(const char* segment, uint64_t count, uint64_t expected) {
  if (count == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rows: ", count, " ", segment, ", the counts in the metadata say ", expected));
}

// Keeps what a call refers to while it runs.
template <typename Message, typename Request>
struct CallOwner {
  Message message;
  rpc::RequestOf<Request> request;
  std::shared_ptr<AlignedBuffer> rows = {};
};

template <typename Method>
using Reply = rpc::awaitable<StatusOr<rpc::Outgoing<typename Method::Response>>>;

Reply<api::PullRows> HandlePull(rpc::RequestOf<api::PullRows::Request> request,
                                ParameterServer& server, BufferPool& buffers,
                                uint64_t map_version) {
  using Owner = CallOwner<api::PullRowsMessage, api::PullRows::Request>;
  SIMURGH_CO_ASSIGN_OR_RETURN(auto message, api::Decode(request.table(), server.partition_count()));
  SIMURGH_CO_RETURN_IF_ERROR(CheckMap(message.map_version, map_version));
  const auto owner = std::make_shared<Owner>(Owner{std::move(message), std::move(request)});
  const api::RowPayload size = api::PayloadOf(owner->message.groups);
  owner->rows = buffers.Lease(size.floats * sizeof(float));
  PullRowsCall call{.purpose = owner->message.purpose,
                    .position = owner->message.position,
                    .acknowledged_steps = owner->message.acknowledged_steps,
                    .groups = owner->message.groups,
                    .ids = owner->request.segment<"ids">(),
                    .rows = owner->rows->as<float>(size.floats),
                    .owner = owner};
  const std::span<const float> rows = call.rows;
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const PullReport report,
      co_await server.Pull(std::move(call), {owner->request.deadline(), owner->request.trace()}));
  co_return api::Encode(report, {rows, owner->rows});
}

Reply<api::PushRows> HandlePush(rpc::RequestOf<api::PushRows::Request> request,
                                ParameterServer& server, uint64_t map_version) {
  using Owner = CallOwner<api::PushRowsMessage, api::PushRows::Request>;
  SIMURGH_CO_ASSIGN_OR_RETURN(auto message, api::Decode(request.table(), server.partition_count()));
  SIMURGH_CO_RETURN_IF_ERROR(CheckMap(message.map_version, map_version));
  const auto owner = std::make_shared<Owner>(Owner{std::move(message), std::move(request)});
  PushRowsCall call{.position = owner->message.position,
                    .part = owner->message.part,
                    .parts = owner->message.parts,
                    .groups = owner->message.groups,
                    .learning_rates = owner->message.learning_rates,
                    .ids = owner->request.segment<"ids">(),
                    .gradients = owner->request.segment<"gradients">(),
                    .owner = owner};
  SIMURGH_CO_ASSIGN_OR_RETURN(
      const PushReport report,
      co_await server.Push(std::move(call), {owner->request.deadline(), owner->request.trace()}));
  co_return api::Encode(report);
}

}  // namespace

void RegisterRowMethods(rpc::Server& server, ParameterServer& rows, BufferPool& buffers,
                        uint64_t map_version) {
  const uint32_t partitions = rows.partition_count();
  using PullPlaces = rpc::Places<api::PullRows::Request>;
  const auto place_pull =
      [&buffers, partitions](const api::wire::PullRowsRequest& request,
                             const api::PullRows::Request::Counts& counts) -> StatusOr<PullPlaces> {
    SIMURGH_ASSIGN_OR_RETURN(const auto message, api::Decode(request, partitions));
    SIMURGH_RETURN_IF_ERROR(CheckCount("ids", counts[0], api::PayloadOf(message.groups).ids));
    return PullPlaces{Room<uint64_t>(buffers, counts[0])};
  };
  rpc::Register(server, api::kPullRows, place_pull, [&rows, &buffers, map_version](auto request) {
    return HandlePull(std::move(request), rows, buffers, map_version);
  });

  using PushPlaces = rpc::Places<api::PushRows::Request>;
  const auto place_push =
      [&buffers, partitions](const api::wire::PushRowsRequest& request,
                             const api::PushRows::Request::Counts& counts) -> StatusOr<PushPlaces> {
    SIMURGH_ASSIGN_OR_RETURN(const auto message, api::Decode(request, partitions));
    const api::RowPayload size = api::PayloadOf(message.groups);
    const auto [ids, gradients] = counts;
    SIMURGH_RETURN_IF_ERROR(CheckCount("ids", ids, size.ids));
    SIMURGH_RETURN_IF_ERROR(CheckCount("gradients", gradients, size.floats));
    return PushPlaces{Room<uint64_t>(buffers, ids), Room<float>(buffers, gradients)};
  };
  rpc::Register(server, api::kPushRows, place_push, [&rows, map_version](auto request) {
    return HandlePush(std::move(request), rows, map_version);
  });
}

}  // namespace simurgh
