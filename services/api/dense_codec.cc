#include "services/api/dense_codec.h"

#include "absl/strings/str_cat.h"

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
