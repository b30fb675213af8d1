#pragma once

// A link that breaks.

#include <cstdint>
#include <memory>

#include "rpc/testing/proxy.h"

namespace simurgh::rpc::testing {

// Forwards bytes in both directions, with the files of a handshake, and cuts every connection after
// a random number of bytes: by reset, by closing both ends, or by ending one direction.
//
// Threads, Lifetime: as Proxy.
class KillingProxy : public Proxy {
 public:
  static constexpr uint64_t kHelloBytes = 600;  // Both HELLOs, approximately.

  // mean_bytes: of both directions until the cut. One connection in 16 is cut within the first
  // handshake_bytes.
  KillingProxy(asio::any_io_executor executor, uint64_t seed, double mean_bytes,
               uint64_t handshake_bytes = kHelloBytes);

  // Stops cutting connections.
  void StopKilling();

  // The number of connections cut.
  uint64_t kills() const;

 private:
  struct Core;
  class Link;

  KillingProxy(asio::any_io_executor executor, const std::shared_ptr<Core>& core);

  const std::shared_ptr<Core> core_;
};

}  // namespace simurgh::rpc::testing
