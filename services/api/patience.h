#pragma once

#include <chrono>

#include "rpc/call.h"

namespace simurgh::api {

// How long a call may wait for a connection that is not there. Long enough for a peer that
// restarts, short enough that a batch soon goes elsewhere and the log soon says why.
inline constexpr std::chrono::seconds kConnectionPatience{1};

inline rpc::CallOptions Patient(rpc::CallOptions options) {
  options.patience = kConnectionPatience;
  return options;
}

}  // namespace simurgh::api
