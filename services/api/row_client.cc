#include "services/api/row_client.h"

#include <utility>

#include "services/api/patience.h"
#include "services/api/row_codec.h"

namespace simurgh {

RowClient::RowClient(std::string name, std::unique_ptr<PeerClients> clients, uint64_t map_version)
    : name_(std::move(name)), clients_(std::move(clients)), map_version_(map_version) {}

rpc::awaitable<StatusOr<PullReport>> RowClient::Pull(PullRowsCall call, rpc::CallOptions options) {
  auto request = api::Encode(call, map_version_);
  const auto client = clients_->shared();
  const auto response = co_await rpc::Call(*client, api::kPullRows, std::move(request),
                                           {{call.rows, call.owner}}, api::Patient(options));
  if (!response.ok()) co_return Annotate(response.status(), name_);
  co_return api::Decode(response->table());
}

rpc::awaitable<StatusOr<PushReport>> RowClient::Push(PushRowsCall call, rpc::CallOptions options) {
  auto request = api::Encode(call, map_version_);
  const auto client = call.step_id.waits_for_ranks() ? clients_->dedicated() : clients_->shared();
  const auto response =
      co_await rpc::Call(*client, api::kPushRows, std::move(request), api::Patient(options));
  if (!response.ok()) co_return Annotate(response.status(), name_);
  co_return api::Decode(response->table());
}

rpc::awaitable<Status> RowClient::EndRun(StepId step_id, rpc::CallOptions options) {
  const auto client = clients_->shared();
  const auto response =
      co_await rpc::Call(*client, api::kEndRun, api::EncodeEndRun(step_id), options);
  co_return Annotate(response.status(), name_);
}

template <typename Method, typename Call>
rpc::awaitable<StatusOr<SaveProgress>> RowClient::CallFor(const Method& method, Call call,
                                                          rpc::CallOptions options) {
  const auto client = clients_->shared();
  const auto response =
      co_await rpc::Call(*client, method, api::Encode(call), api::Patient(options));
  if (!response.ok()) co_return Annotate(response.status(), name_);
  co_return api::Decode(response->table());
}

rpc::awaitable<StatusOr<SaveProgress>> RowClient::SaveRows(SaveRowsCall call,
                                                           rpc::CallOptions options) {
  return CallFor(api::kSaveRows, std::move(call), options);
}

rpc::awaitable<StatusOr<SaveProgress>> RowClient::RestoreRows(RestoreRowsCall call,
                                                              rpc::CallOptions options) {
  return CallFor(api::kRestoreRows, std::move(call), options);
}

}  // namespace simurgh
