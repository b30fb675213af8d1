#pragma once

// A wire that is long and narrow.

#include "rpc/testing/proxy.h"

namespace simurgh::rpc::testing {

// Passes bytes on in both directions, in order, each late by the delay and no more of them in a
// second than the rate lets through. Each direction of each connection is a wire of its own. Who
// sends more than the wire takes has to wait, as for a receiver that does not read. The end of a
// direction comes behind its bytes, a reset at once.
//
// Threads, Lifetime: as Proxy.
// Cost: a copy of every byte beside those from and to the kernel. Memory of each direction: what is
// under way in `delay`, and 1 MiB.
class DelayingProxy : public Proxy {
 public:
  // bytes_per_second: > 0.
  DelayingProxy(asio::any_io_executor executor, Clock::duration delay, double bytes_per_second);

 private:
  class Link;
};

}  // namespace simurgh::rpc::testing
