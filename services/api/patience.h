#pragma once

#include <algorithm>
#include <chrono>

#include "rpc/client.h"

namespace simurgh::api {

// How long a call may wait for a connection that is not there. Long enough for a peer that
// restarts, short enough that a batch soon goes elsewhere and the log soon says why.
inline constexpr std::chrono::seconds kConnectionPatience{1};

// The deadline of a call to this peer: the given one, or an earlier one while it is not connected.
inline rpc::Clock::time_point PatientUntil(const rpc::Client& client,
                                           rpc::Clock::time_point deadline) {
  if (client.peer() != nullptr) return deadline;
  return std::min(deadline, rpc::Clock::now() + kConnectionPatience);
}

}  // namespace simurgh::api
