#pragma once

// A wire that breaks.

#include <cstdint>
#include <memory>

#include "rpc/testing/proxy.h"

namespace simurgh::rpc::testing {

// Passes bytes on in both directions, with the files that go along with a handshake, and cuts every
// connection after a random number of bytes: in the middle of a frame as likely as anywhere, by
// reset, by closing both ends, or by ending one direction alone.
//
// Threads, Lifetime: as Proxy.
class KillingProxy : public Proxy {
 public:
  static constexpr uint64_t kHelloBytes = 600;  // Of both, about.

  // mean_bytes: what a connection carries before it is cut, both directions together; one in
  // sixteen gets no further than its handshake, of about so many.
  KillingProxy(asio::any_io_executor executor, uint64_t seed, double mean_bytes,
               uint64_t handshake_bytes = kHelloBytes);

  // Cuts nothing from now on but what is cut already.
  void StopKilling();

  // How many connections it has cut.
  uint64_t kills() const;

 private:
  struct Core;
  class Link;

  KillingProxy(asio::any_io_executor executor, const std::shared_ptr<Core>& core);

  const std::shared_ptr<Core> core_;
};

}  // namespace simurgh::rpc::testing
