#include "services/api/row_client.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "services/api/methods.h"
#include "services/api/patience.h"
#include "services/api/row_codec.h"

namespace simurgh {
namespace {

// The response's only segment goes to `rows`.
rpc::Placement IntoRows(std::span<float> rows, std::shared_ptr<void> owner) {
  return [rows, owner = std::move(owner)](
             std::span<const std::byte>,
             std::span<const uint64_t> lengths) -> StatusOr<std::vector<rpc::IncomingSegment>> {
    if (lengths.size() != 1 || lengths[0] != rows.size_bytes()) {
      return absl::InternalError(absl::StrCat("pull rows: the server answered with ",
                                              lengths.size(), " segments, expected one of ",
                                              rows.size_bytes(), " bytes"));
    }
    return std::vector<rpc::IncomingSegment>{{std::as_writable_bytes(rows), owner}};
  };
}

}  // namespace

RowClient::RowClient(std::string name, std::unique_ptr<rpc::Client> client, uint64_t map_version)
    : name_(std::move(name)), client_(std::move(client)), map_version_(map_version) {}

rpc::awaitable<StatusOr<PullReport>> RowClient::Pull(PullRowsCall call,
                                                     rpc::Clock::time_point deadline) {
  rpc::OutgoingMessage request;
  request.metadata = api::Encode(call, map_version_);
  request.segments.push_back({std::as_bytes(call.ids), call.owner});
  rpc::Placement placement = IntoRows(call.rows, call.owner);
  auto response = co_await client_->Call(api::kPullRows, std::move(request), std::move(placement),
                                         api::PatientUntil(*client_, deadline));
  if (!response.ok()) co_return Annotate(response.status(), name_);
  co_return api::DecodePullReport(response->metadata);
}

rpc::awaitable<StatusOr<PushReport>> RowClient::Push(PushRowsCall call,
                                                     rpc::Clock::time_point deadline) {
  rpc::OutgoingMessage request;
  request.metadata = api::Encode(call, map_version_);
  request.segments.push_back({std::as_bytes(call.ids), call.owner});
  request.segments.push_back({std::as_bytes(call.gradients), call.owner});
  rpc::Placement placement = rpc::NoSegments();
  auto response = co_await client_->Call(api::kPushRows, std::move(request), std::move(placement),
                                         api::PatientUntil(*client_, deadline));
  if (!response.ok()) co_return Annotate(response.status(), name_);
  co_return api::DecodePushReport(response->metadata);
}

}  // namespace simurgh
