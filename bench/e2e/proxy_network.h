#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh::bench {

// A proxy listens at `from` and connects to `to`, both as in the configuration.
struct ProxiedAddress {
  std::string from;
  std::string to;
};

// Carries connections with a delay and a limited rate, until SIGTERM or SIGINT. Prints "ready" once
// it listens.
//
// delay: one way. bytes_per_second: limit of each direction of each connection; > 0.
// Errors: as rpc::Listener::Open; INVALID_ARGUMENT for an invalid address.
Status CarryConnections(const std::vector<ProxiedAddress>& addresses,
                        std::chrono::steady_clock::duration delay, double bytes_per_second);

}  // namespace simurgh::bench
