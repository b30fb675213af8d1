#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh::bench {

inline constexpr size_t kMaxHosts = 250;

// Carries packets between network namespaces with a delay and a limited rate, until SIGTERM or
// SIGINT. Gives each namespace (ip netns add NAME) the device slow0; the first has
// the address 10.77.0.1, and so on. Prints "ready" once they are up.
//
// delay: one way. bytes_per_second: limit of each namespace; > 0.
// Errors: as Tunnel::Open.
Status CarryPackets(const std::vector<std::string>& namespaces,
                    std::chrono::steady_clock::duration delay, double bytes_per_second);

}  // namespace simurgh::bench
