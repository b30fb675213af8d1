#pragma once

// A link with delay and limited bandwidth.

#include "rpc/testing/proxy.h"

namespace simurgh::rpc::testing {

// Forwards bytes in both directions with a delay and a maximum rate. Each direction of a connection
// is a separate link. A sender that exceeds the rate waits, as for a receiver that does not read.
// The end of a direction is delayed like its bytes; a reset is not.
//
// Threads, Lifetime: as Proxy.
// Cost: one more copy of every byte; for each direction, delay × rate + 1 MiB of memory.
class DelayingProxy : public Proxy {
 public:
  // Requires bytes_per_second > 0.
  DelayingProxy(asio::any_io_executor executor, Clock::duration delay, double bytes_per_second);

 private:
  class Link;
};

}  // namespace simurgh::rpc::testing
