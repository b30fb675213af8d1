#pragma once

#include <algorithm>
#include <chrono>

#include "rpc/client.h"

namespace simurgh::api {

// How long a call may wait for a connection that is not there. Long enough for a peer that
// restarts, short enough that a batch soon goes elsewhere and the log soon says why.
inline constexpr std::chrono::seconds kConnectionPatience{1};

// The options of a call to this peer: as given, but with an earlier deadline while it is not
// connected.
inline rpc::CallOptions Patient(const rpc::Client& client, rpc::CallOptions options) {
  if (client.peer() == nullptr) {
    options.deadline = std::min(options.deadline, rpc::Clock::now() + kConnectionPatience);
  }
  return options;
}

}  // namespace simurgh::api
