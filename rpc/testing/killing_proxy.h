#pragma once

// A wire that breaks.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "rpc/async.h"
#include "rpc/transport.h"
#include "simurgh/base/random.h"

namespace simurgh::rpc::testing {

// Stands between clients and a server, passes bytes on in both directions, and cuts every
// connection after a random number of bytes: in the middle of a frame as likely as anywhere, by
// reset, by closing both ends, or by ending one direction alone.
//
// Threads: one, that of its executor. Lifetime: connections through it may outlive it.
class KillingProxy {
 public:
  // mean_bytes: what a connection carries before it is cut, both directions together; one in
  // sixteen gets no further than its handshake.
  KillingProxy(asio::any_io_executor executor, uint64_t seed, double mean_bytes);
  ~KillingProxy();

  // address: as rpc::Server::Listen.
  Status Listen(const std::string& address);
  std::string address() const { return listener_->address(); }

  // Where connections accepted from now on lead.
  void SetTarget(const std::string& address);

  // Cuts nothing from now on but what is cut already.
  void StopKilling();

  // How many connections it has cut.
  uint64_t kills() const;

 private:
  struct Core;
  class Link;

  [[nodiscard]] static awaitable<void> AcceptLoop(std::shared_ptr<Core> core,
                                                  std::shared_ptr<Listener> listener);
  [[nodiscard]] static awaitable<void> Serve(std::shared_ptr<Core> core, Socket client);

  const asio::any_io_executor executor_;
  const std::shared_ptr<Core> core_;
  std::shared_ptr<Listener> listener_;
};

}  // namespace simurgh::rpc::testing
