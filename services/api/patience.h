#pragma once

#include <chrono>

#include "rpc/call.h"

namespace simurgh::api {

// Maximum wait for a connection: long enough for a restarting peer, short enough that a batch soon
// moves to another one and the log shows the reason.
inline constexpr std::chrono::seconds kConnectionPatience{1};

inline rpc::CallOptions Patient(rpc::CallOptions options) {
  options.patience = kConnectionPatience;
  return options;
}

}  // namespace simurgh::api
