#include "services/embedding_ps/row_methods.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "services/api/methods.h"
#include "services/api/row_codec.h"

namespace simurgh {
namespace {

Status CheckMap(uint64_t theirs, uint64_t ours) {
  if (theirs == ours) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("rows: the request goes by bucket map ", theirs, ", this server by ", ours,
                   "; restart the cluster with one configuration"));
}

// A lease of the pool for a segment of `length` bytes.
rpc::IncomingSegment Room(BufferPool& buffers, uint64_t length) {
  auto buffer = buffers.Lease(length);
  const std::span<std::byte> bytes = buffer->bytes().first(length);
  return {bytes, std::move(buffer)};
}

StatusOr<std::vector<rpc::IncomingSegment>> Place(BufferPool& buffers,
                                                  std::span<const uint64_t> lengths,
                                                  std::span<const uint64_t> expected) {
  if (!std::ranges::equal(lengths, expected)) {
    return absl::InvalidArgumentError("rows: the payload does not fit the counts in the metadata");
  }
  std::vector<rpc::IncomingSegment> places;
  for (const uint64_t length : lengths) places.push_back(Room(buffers, length));
  return places;
}

template <typename T>
std::span<T> As(const rpc::ReceivedSegment& segment) {
  return {reinterpret_cast<T*>(segment.bytes.data()), segment.bytes.size() / sizeof(T)};
}

}  // namespace

// Keeps what a call refers to while it runs.
template <typename Message>
struct CallOwner {
  Message message;
  rpc::IncomingMessage payload;
  std::shared_ptr<AlignedBuffer> rows;
};

rpc::awaitable<StatusOr<rpc::OutgoingMessage>> HandlePull(rpc::Request request,
                                                          ParameterServer& server,
                                                          BufferPool& buffers,
                                                          uint64_t map_version) {
  auto owner = std::make_shared<CallOwner<api::PullRowsMessage>>();
  SIMURGH_CO_ASSIGN_OR_RETURN(
      owner->message, api::DecodePullRows(request.message.metadata, server.partition_count()));
  SIMURGH_CO_RETURN_IF_ERROR(CheckMap(owner->message.map_version, map_version));
  owner->payload = std::move(request.message);
  const api::RowPayload size = api::PayloadOf(owner->message.groups);
  owner->rows = buffers.Lease(size.floats * sizeof(float));
  PullRowsCall call{.purpose = owner->message.purpose,
                    .position = owner->message.position,
                    .acknowledged_steps = owner->message.acknowledged_steps,
                    .groups = owner->message.groups,
                    .ids = As<const uint64_t>(owner->payload.segments[0]),
                    .rows = owner->rows->as<float>(size.floats),
                    .owner = owner};
  const std::span<const std::byte> rows = std::as_bytes(call.rows);
  SIMURGH_CO_ASSIGN_OR_RETURN(const PullReport report,
                              co_await server.Pull(std::move(call), request.deadline));
  rpc::OutgoingMessage response;
  response.metadata = api::Encode(report);
  response.segments.push_back({rows, owner->rows});
  co_return response;
}

rpc::awaitable<StatusOr<rpc::OutgoingMessage>> HandlePush(rpc::Request request,
                                                          ParameterServer& server,
                                                          uint64_t map_version) {
  auto owner = std::make_shared<CallOwner<api::PushRowsMessage>>();
  SIMURGH_CO_ASSIGN_OR_RETURN(
      owner->message, api::DecodePushRows(request.message.metadata, server.partition_count()));
  SIMURGH_CO_RETURN_IF_ERROR(CheckMap(owner->message.map_version, map_version));
  owner->payload = std::move(request.message);
  PushRowsCall call{.position = owner->message.position,
                    .part = owner->message.part,
                    .parts = owner->message.parts,
                    .groups = owner->message.groups,
                    .learning_rates = owner->message.learning_rates,
                    .ids = As<const uint64_t>(owner->payload.segments[0]),
                    .gradients = As<const float>(owner->payload.segments[1]),
                    .owner = owner};
  SIMURGH_CO_ASSIGN_OR_RETURN(const PushReport report,
                              co_await server.Push(std::move(call), request.deadline));
  rpc::OutgoingMessage response;
  response.metadata = api::Encode(report);
  co_return response;
}

void RegisterRowMethods(rpc::Server& server, ParameterServer& rows, BufferPool& buffers,
                        uint64_t map_version) {
  const uint32_t partitions = rows.partition_count();
  server.Register({.id = api::kPullRows,
                   .placement = [&buffers, partitions](std::span<const std::byte> metadata,
                                                       std::span<const uint64_t> lengths)
                       -> StatusOr<std::vector<rpc::IncomingSegment>> {
                     SIMURGH_ASSIGN_OR_RETURN(const auto message,
                                              api::DecodePullRows(metadata, partitions));
                     const api::RowPayload size = api::PayloadOf(message.groups);
                     return Place(buffers, lengths, std::array{size.ids * sizeof(uint64_t)});
                   },
                   .handle =
                       [&rows, &buffers, map_version](rpc::Request request) {
                         return HandlePull(std::move(request), rows, buffers, map_version);
                       }});
  server.Register(
      {.id = api::kPushRows,
       .placement = [&buffers, partitions](std::span<const std::byte> metadata,
                                           std::span<const uint64_t> lengths)
           -> StatusOr<std::vector<rpc::IncomingSegment>> {
         SIMURGH_ASSIGN_OR_RETURN(const auto message, api::DecodePushRows(metadata, partitions));
         const api::RowPayload size = api::PayloadOf(message.groups);
         return Place(buffers, lengths,
                      std::array{size.ids * sizeof(uint64_t), size.floats * sizeof(float)});
       },
       .handle =
           [&rows, map_version](rpc::Request request) {
             return HandlePush(std::move(request), rows, map_version);
           }});
}

}  // namespace simurgh
