#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh::bench {

// Two addresses, as daemons have them: what comes to the one goes to the other.
struct ProxiedAddress {
  std::string from;
  std::string to;
};

// Carries connections to the servers behind these addresses, late and at a limited rate, until
// SIGTERM or SIGINT comes. Prints "ready" once it listens.
//
// delay: one way. bytes_per_second: each direction of each connection; > 0.
// Errors: as rpc::Listener::Open; INVALID_ARGUMENT for what is no address.
Status CarryConnections(const std::vector<ProxiedAddress>& addresses,
                        std::chrono::steady_clock::duration delay, double bytes_per_second);

}  // namespace simurgh::bench
