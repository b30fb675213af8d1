#include "services/api/dense_rpc.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "services/api/peer_clients.h"

namespace simurgh::api {
StatusOr<DenseOptimizerConfig> Decode(const wire::DenseOptimizer& optimizer) {
  using Kind = DenseOptimizerConfig::Kind;
  if (optimizer.kind() > static_cast<uint8_t>(Kind::kAdagrad)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dense weights: optimizer: ", optimizer.kind(), " is unknown; use 0 to 2"));
  }
  return DenseOptimizerConfig{.kind = static_cast<Kind>(optimizer.kind()),
                              .momentum = optimizer.momentum(),
                              .nesterov = optimizer.nesterov(),
                              .beta1 = optimizer.beta1(),
                              .beta2 = optimizer.beta2(),
                              .epsilon = optimizer.epsilon(),
                              .initial_accumulator = optimizer.initial_accumulator(),
                              .weight_decay = optimizer.weight_decay(),
                              .decoupled_weight_decay = optimizer.decoupled_weight_decay()};
}

rpc::Outgoing<StartDense::Request> Encode(const StartDenseCall& call) {
  flatbuffers::FlatBufferBuilder builder;
  const DenseOptimizerConfig& config = call.optimizer;
  const auto optimizer = wire::CreateDenseOptimizer(
      builder, static_cast<uint8_t>(config.kind), config.momentum, config.nesterov, config.beta1,
      config.beta2, config.epsilon, config.initial_accumulator, config.weight_decay,
      config.decoupled_weight_decay);
  const auto root = wire::CreateStartDenseRequest(builder, call.run, optimizer);
  return {builder, root, {call.parameters, call.owner}, {call.state, call.owner}};
}

rpc::Outgoing<PullDense::Request> Encode(const PullDenseCall& call) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = wire::CreatePullDenseRequest(builder, call.run, call.values.size(), call.state);
  return {builder, root};
}

rpc::Outgoing<PushDense::Request> Encode(const PushDenseCall& call) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = wire::CreatePushDenseRequest(builder, call.run, call.rank, call.number,
                                                 call.base_version, call.learning_rate);
  return {builder, root, {call.gradients, call.owner}};
}

DenseAnswer Decode(const wire::DenseResponse& response) {
  return {.version = response.version(), .gap = response.gap(), .repeated = response.repeated()};
}

rpc::Outgoing<StartDense::Response> EncodeStarted(const DenseAnswer& answer) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = wire::CreateDenseResponse(builder, answer.version, answer.gap, answer.repeated);
  return {builder, root};
}

}  // namespace simurgh::api

namespace simurgh {
template <typename Method, typename... Destinations>
rpc::awaitable<StatusOr<DenseAnswer>> RemoteDenseServer::Call(
    Method method, rpc::Outgoing<typename Method::Request> request, rpc::CallOptions options,
    Destinations... destinations) {
  const auto response =
      co_await rpc::Call(*client_, method, std::move(request),
                         rpc::Destinations<typename Method::Response>{std::move(destinations)...},
                         api::Patient(options));
  if (!response.ok()) co_return Annotate(response.status(), name_);
  co_return api::Decode(response->table());
}

rpc::awaitable<StatusOr<DenseAnswer>> RemoteDenseServer::Start(StartDenseCall call,
                                                               rpc::CallOptions options) {
  return Call(api::kStartDense, api::Encode(call), options);
}

rpc::awaitable<StatusOr<DenseAnswer>> RemoteDenseServer::Pull(PullDenseCall call,
                                                              rpc::CallOptions options) {
  return Call(api::kPullDense, api::Encode(call), options,
              rpc::SegmentDestination<float>{call.values, call.owner});
}

rpc::awaitable<StatusOr<DenseAnswer>> RemoteDenseServer::Push(PushDenseCall call,
                                                              rpc::CallOptions options) {
  return Call(api::kPushDense, api::Encode(call), options,
              rpc::SegmentDestination<float>{call.parameters, call.owner});
}

DenseClient::DenseClient(rpc::asio::any_io_executor executor,
                         std::vector<std::unique_ptr<DenseServer>> servers,
                         std::chrono::milliseconds call_timeout)
    : executor_(std::move(executor)),
      servers_(std::move(servers)),
      call_timeout_(call_timeout),
      traces_(std::random_device()()) {
  SIMURGH_CHECK(!servers_.empty());
}

template <typename Call>
void DenseClient::OnServers(Call call, std::function<void(StatusOr<DenseVersions>)> done) {
  auto all = [this, call = std::move(call)]() -> rpc::awaitable<StatusOr<DenseVersions>> {
    const rpc::CallOptions options(rpc::Clock::now() + call_timeout_,
                                   {.trace_id = traces_() | 1});  // Never 0.
    DenseVersions result{.versions = std::vector<uint64_t>(servers_.size())};
    const auto one = [&](size_t server) -> rpc::awaitable<Status> {
      SIMURGH_CO_ASSIGN_OR_RETURN(
          const DenseAnswer answer,
          co_await call(server, {options.deadline, options.trace.Child(server)}));
      result.versions[server] = answer.version;
      result.gap = std::max(result.gap, answer.gap);
      co_return absl::OkStatus();
    };
    std::vector<rpc::awaitable<Status>> tasks;
    for (size_t server = 0; server < servers_.size(); ++server) tasks.push_back(one(server));
    SIMURGH_CO_RETURN_IF_ERROR(co_await rpc::WhenAll(std::move(tasks)));
    co_return result;
  };
  rpc::asio::co_spawn(executor_, std::move(all), CompleteWith(std::move(done)));
}

std::vector<DenseOptimizer::Part> DenseClient::StateOf(size_t server,
                                                       const DenseOptimizerConfig& optimizer,
                                                       size_t weights) const {
  const size_t first = FirstOf(server, weights);
  return DenseOptimizer::PartsOf(optimizer, weights, first, FirstOf(server + 1, weights) - first);
}

void DenseClient::Start(uint64_t run, const DenseOptimizerConfig& optimizer,
                        std::span<const float> parameters, std::span<const float> state,
                        std::shared_ptr<const void> owner, std::function<void(Status)> done) {
  // Gathers each server's parts into one array.
  auto states = std::make_shared<std::vector<std::vector<float>>>(servers_.size());
  for (size_t server = 0; server < servers_.size() && !state.empty(); ++server) {
    std::vector<float>& own = (*states)[server];
    for (const auto& part : StateOf(server, optimizer, parameters.size())) {
      const auto values = state.subspan(part.first, part.count);
      own.insert(own.end(), values.begin(), values.end());
    }
  }
  auto start = [=, this](size_t server, const rpc::CallOptions& options) {
    using Owners = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
    return servers_[server]->Start({.run = run,
                                    .optimizer = optimizer,
                                    .parameters = RangeOf(server, parameters),
                                    .state = (*states)[server],
                                    .owner = std::make_shared<Owners>(owner, states)},
                                   options);
  };
  OnServers(std::move(start),
            [done = std::move(done)](const auto& result) { done(result.status()); });
}

void DenseClient::Pull(uint64_t run, std::span<float> parameters, std::shared_ptr<void> owner,
                       std::function<void(StatusOr<DenseVersions>)> done) {
  auto pull = [=, this](size_t server, const rpc::CallOptions& options) {
    return servers_[server]->Pull(
        {.run = run, .values = RangeOf(server, parameters), .owner = owner}, options);
  };
  OnServers(std::move(pull), std::move(done));
}

void DenseClient::PullState(uint64_t run, const DenseOptimizerConfig& optimizer, size_t weights,
                            std::span<float> state, std::shared_ptr<void> owner,
                            std::function<void(Status)> done) {
  auto pull = [=, this](size_t server,
                        rpc::CallOptions options) -> rpc::awaitable<StatusOr<DenseAnswer>> {
    const auto parts = StateOf(server, optimizer, weights);
    size_t count = 0;
    for (const auto& part : parts) count += part.count;
    const auto own = std::make_shared<std::vector<float>>(count);
    SIMURGH_CO_ASSIGN_OR_RETURN(
        const DenseAnswer answer,
        co_await servers_[server]->Pull({.run = run, .state = true, .values = *own, .owner = own},
                                        options));
    auto from = own->begin();
    for (const auto& part : parts) {
      std::copy_n(from, part.count, state.subspan(part.first, part.count).begin());
      from += static_cast<std::ptrdiff_t>(part.count);
    }
    co_return answer;
  };
  OnServers(std::move(pull), [done = std::move(done), owner = std::move(owner)](
                                 const auto& result) { done(result.status()); });
}

void DenseClient::Push(const DensePush& push, std::span<const float> gradients,
                       std::span<float> parameters, std::shared_ptr<void> owner,
                       std::function<void(StatusOr<DenseVersions>)> done) {
  auto send = [=, this](size_t server, const rpc::CallOptions& options) {
    return servers_[server]->Push({.run = push.run,
                                   .rank = push.rank,
                                   .number = push.number,
                                   .base_version = push.base_versions[server],
                                   .learning_rate = push.learning_rate,
                                   .gradients = RangeOf(server, gradients),
                                   .parameters = RangeOf(server, parameters),
                                   .owner = owner},
                                  options);
  };
  OnServers(std::move(send), std::move(done));
}

}  // namespace simurgh
