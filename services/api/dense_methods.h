#pragma once

// Methods of parameter servers that own the dense weights (training.mode: async), called by
// nn-workers. The tables are in dense.fbs. The number and meaning of a method never change.

#include "rpc/method.h"
#include "services/api/dense_generated.h"

namespace simurgh::api {

// Segments hold the server's range of the flat weights, or their gradients.
using StartDense =
    rpc::MethodOf<rpc::MessageOf<wire::StartDenseRequest, rpc::Segment<"parameters", float>,
                                 rpc::Segment<"state", float>>,
                  rpc::MessageOf<wire::DenseResponse>>;
inline constexpr StartDense kStartDense{.number = 0x0103, .name = "start_dense"};

using PullDense =
    rpc::MethodOf<rpc::MessageOf<wire::PullDenseRequest>,
                  rpc::MessageOf<wire::DenseResponse, rpc::Segment<"parameters", float>>>;
inline constexpr PullDense kPullDense{.number = 0x0104, .name = "pull_dense"};

// The response holds the weights after the push.
using PushDense =
    rpc::MethodOf<rpc::MessageOf<wire::PushDenseRequest, rpc::Segment<"gradients", float>>,
                  rpc::MessageOf<wire::DenseResponse, rpc::Segment<"parameters", float>>>;
inline constexpr PushDense kPushDense{.number = 0x0105, .name = "push_dense"};

}  // namespace simurgh::api
