#pragma once

#include <chrono>

#include "rpc/call.h"

namespace simurgh::api {

// Maximum wait of a call for a connection: long enough for a peer's restart, short enough that a
// batch soon moves to another worker and the log soon names the cause.
inline constexpr std::chrono::seconds kConnectionPatience{1};

inline rpc::CallOptions Patient(rpc::CallOptions options) {
  options.patience = kConnectionPatience;
  return options;
}

}  // namespace simurgh::api
