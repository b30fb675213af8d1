#pragma once

#include <string>
#include <utility>

#include "rpc/call.h"
#include "rpc/message.h"

namespace simurgh {

// Of either end of a connection in a test.
inline rpc::Hello HelloOf(std::string role) { return {.cluster = "test", .role = std::move(role)}; }

}  // namespace simurgh
