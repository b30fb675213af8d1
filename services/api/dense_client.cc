#include "services/api/dense_client.h"

#include <algorithm>
#include <utility>

#include "services/api/answer.h"
#include "services/api/dense_codec.h"
#include "services/api/patience.h"
#include "simurgh/base/check.h"

namespace simurgh {
namespace {

DenseVersions VersionsOf(const std::vector<DenseAnswer>& answers) {
  DenseVersions versions;
  for (const DenseAnswer& answer : answers) {
    versions.versions.push_back(answer.version);
    versions.gap = std::max(versions.gap, answer.gap);
  }
  return versions;
}

}  // namespace

rpc::awaitable<StatusOr<DenseAnswer>> RemoteDenseServer::Start(StartDenseCall call,
                                                               rpc::CallOptions options) {
  auto request = api::Encode(call);
  const auto response =
      co_await rpc::Call(*client_, api::kStartDense, std::move(request), api::Patient(options));
  if (!response.ok()) co_return Annotate(response.status(), name_);
  co_return api::Decode(response->table());
}

rpc::awaitable<StatusOr<DenseAnswer>> RemoteDenseServer::Pull(PullDenseCall call,
                                                              rpc::CallOptions options) {
  auto request = api::Encode(call);
  const auto response = co_await rpc::Call(*client_, api::kPullDense, std::move(request),
                                           {{call.parameters, call.owner}}, api::Patient(options));
  if (!response.ok()) co_return Annotate(response.status(), name_);
  co_return api::Decode(response->table());
}

rpc::awaitable<StatusOr<DenseAnswer>> RemoteDenseServer::Push(PushDenseCall call,
                                                              rpc::CallOptions options) {
  auto request = api::Encode(call);
  const auto response = co_await rpc::Call(*client_, api::kPushDense, std::move(request),
                                           {{call.parameters, call.owner}}, api::Patient(options));
  if (!response.ok()) co_return Annotate(response.status(), name_);
  co_return api::Decode(response->table());
}

DenseClient::DenseClient(rpc::asio::any_io_executor executor,
                         std::vector<std::unique_ptr<DenseServer>> servers,
                         std::chrono::milliseconds call_timeout)
    : executor_(std::move(executor)), servers_(std::move(servers)), call_timeout_(call_timeout) {
  SIMURGH_CHECK(!servers_.empty());
}

template <typename Call>
rpc::awaitable<StatusOr<DenseClient::Answers>> DenseClient::OnServers(const Call& call) {
  Answers answers(servers_.size());
  const auto one = [&](size_t server) -> rpc::awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(answers[server], co_await call(server));
    co_return absl::OkStatus();
  };
  std::vector<rpc::awaitable<Status>> tasks;
  for (size_t server = 0; server < servers_.size(); ++server) tasks.push_back(one(server));
  SIMURGH_CO_RETURN_IF_ERROR(co_await rpc::WhenAll(std::move(tasks)));
  co_return answers;
}

rpc::awaitable<Status> DenseClient::StartAll(uint64_t run, DenseOptimizerConfig optimizer,
                                             std::span<const float> parameters,
                                             std::shared_ptr<const void> owner) {
  const auto deadline = Deadline();
  const auto start = [&](size_t server) {
    StartDenseCall call{.run = run,
                        .optimizer = optimizer,
                        .parameters = RangeOf(server, parameters),
                        .owner = owner};
    return servers_[server]->Start(std::move(call), deadline);
  };
  const auto answers = co_await OnServers(start);
  co_return answers.status();
}

rpc::awaitable<StatusOr<DenseVersions>> DenseClient::PullAll(uint64_t run,
                                                             std::span<float> parameters,
                                                             std::shared_ptr<void> owner) {
  const auto deadline = Deadline();
  const auto pull = [&](size_t server) {
    PullDenseCall call{.run = run, .parameters = RangeOf(server, parameters), .owner = owner};
    return servers_[server]->Pull(std::move(call), deadline);
  };
  SIMURGH_CO_ASSIGN_OR_RETURN(const Answers answers, co_await OnServers(pull));
  co_return VersionsOf(answers);
}

rpc::awaitable<StatusOr<DenseVersions>> DenseClient::PushAll(DensePush push,
                                                             std::span<const float> gradients,
                                                             std::span<float> parameters,
                                                             std::shared_ptr<void> owner) {
  const auto deadline = Deadline();
  const auto send = [&](size_t server) {
    PushDenseCall call{.run = push.run,
                       .rank = push.rank,
                       .number = push.number,
                       .base_version = push.base_versions[server],
                       .learning_rate = push.learning_rate,
                       .gradients = RangeOf(server, gradients),
                       .parameters = RangeOf(server, parameters),
                       .owner = owner};
    return servers_[server]->Push(std::move(call), deadline);
  };
  SIMURGH_CO_ASSIGN_OR_RETURN(const Answers answers, co_await OnServers(send));
  co_return VersionsOf(answers);
}

void DenseClient::Start(uint64_t run, const DenseOptimizerConfig& optimizer,
                        std::span<const float> parameters, std::shared_ptr<const void> owner,
                        std::function<void(Status)> done) {
  rpc::asio::co_spawn(executor_, StartAll(run, optimizer, parameters, std::move(owner)),
                      CompleteWith(std::move(done)));
}

void DenseClient::Pull(uint64_t run, std::span<float> parameters, std::shared_ptr<void> owner,
                       std::function<void(StatusOr<DenseVersions>)> done) {
  rpc::asio::co_spawn(executor_, PullAll(run, parameters, std::move(owner)),
                      CompleteWith(std::move(done)));
}

void DenseClient::Push(const DensePush& push, std::span<const float> gradients,
                       std::span<float> parameters, std::shared_ptr<void> owner,
                       std::function<void(StatusOr<DenseVersions>)> done) {
  rpc::asio::co_spawn(executor_, PushAll(push, gradients, parameters, std::move(owner)),
                      CompleteWith(std::move(done)));
}

}  // namespace simurgh
