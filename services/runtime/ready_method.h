#pragma once

#include "rpc/method.h"

namespace simurgh {

// A method of every daemon that listens: whether it can do its job.
// Errors: FAILED_PRECONDITION with the reason of /readyz; INVALID_ARGUMENT if only an operator can
// change that.
using Ready = rpc::MethodOf<rpc::MessageOf<rpc::NoTable>, rpc::MessageOf<rpc::NoTable>>;
inline constexpr Ready kReady{.number = 0x0001, .name = "ready"};

}  // namespace simurgh
