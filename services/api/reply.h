#pragma once

#include "base/status.h"
#include "rpc/async.h"
#include "rpc/method.h"

namespace simurgh {

// The result of a method's handler.
template <typename Method>
using Reply = rpc::awaitable<StatusOr<rpc::Outgoing<typename Method::Response>>>;

}  // namespace simurgh
