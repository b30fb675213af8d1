#pragma once

#include <utility>

#include "services/api/dense_methods.h"
#include "services/api/dense_server.h"

namespace simurgh::api {

// Errors: INVALID_ARGUMENT for an unknown kind. Does not check the numbers.
StatusOr<DenseOptimizerConfig> Decode(const wire::DenseOptimizer& optimizer);

// Requests; segments refer to the call's arrays.
rpc::Outgoing<StartDense::Request> Encode(const StartDenseCall& call);
rpc::Outgoing<PullDense::Request> Encode(const PullDenseCall& call);
rpc::Outgoing<PushDense::Request> Encode(const PushDenseCall& call);

DenseAnswer Decode(const wire::DenseResponse& response);

rpc::Outgoing<StartDense::Response> EncodeStarted(const DenseAnswer& answer);

// Method: PullDense or PushDense.
template <typename Method>
rpc::Outgoing<typename Method::Response> EncodeWeights(const DenseAnswer& answer,
                                                       rpc::SegmentSource<float> parameters) {
  flatbuffers::FlatBufferBuilder builder;
  const auto root = wire::CreateDenseResponse(builder, answer.version, answer.gap, answer.repeated);
  return {builder, root, std::move(parameters)};
}

}  // namespace simurgh::api
