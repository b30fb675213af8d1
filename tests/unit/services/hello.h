#pragma once

#include <string>
#include <utility>

#include "rpc/call.h"
#include "rpc/message.h"

namespace simurgh {

// The HELLO of both ends in tests.
inline rpc::Hello HelloOf(std::string role) { return {.cluster = "test", .role = std::move(role)}; }

}  // namespace simurgh
