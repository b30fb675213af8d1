#pragma once

// The method of client and server: echoes a greeting and a tensor.

#include "rpc/examples/echo_generated.h"
#include "rpc/method.h"

namespace example {

namespace rpc = simurgh::rpc;

using Echo = rpc::MethodOf<rpc::MessageOf<wire::EchoRequest, rpc::Segment<"tensor", float>>,
                           rpc::MessageOf<wire::EchoResponse, rpc::Segment<"tensor", float>>>;
inline constexpr Echo kEcho{.number = 1, .name = "echo"};

}  // namespace example
