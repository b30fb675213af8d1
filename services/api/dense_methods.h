#pragma once

// What nn-workers ask of parameter servers where these own the dense weights (training.mode:
// async). The tables are in dense.fbs; a method's number, and what it means, never change.

#include "rpc/method.h"
#include "services/api/dense_generated.h"

namespace simurgh::api {

// Segments hold the server's range of the network's flat weights, or gradients of it.
using StartDense =
    rpc::MethodOf<rpc::MessageOf<wire::StartDenseRequest, rpc::Segment<"parameters", float>>,
                  rpc::MessageOf<wire::DenseResponse>>;
inline constexpr StartDense kStartDense{.number = 0x0103, .name = "start_dense"};

using PullDense =
    rpc::MethodOf<rpc::MessageOf<wire::PullDenseRequest>,
                  rpc::MessageOf<wire::DenseResponse, rpc::Segment<"parameters", float>>>;
inline constexpr PullDense kPullDense{.number = 0x0104, .name = "pull_dense"};

// Answered with the weights as they are when the gradients have been applied.
using PushDense =
    rpc::MethodOf<rpc::MessageOf<wire::PushDenseRequest, rpc::Segment<"gradients", float>>,
                  rpc::MessageOf<wire::DenseResponse, rpc::Segment<"parameters", float>>>;
inline constexpr PushDense kPushDense{.number = 0x0105, .name = "push_dense"};

}  // namespace simurgh::api
