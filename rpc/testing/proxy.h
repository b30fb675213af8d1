#pragma once

// A proxy between clients and a server.

#include <functional>
#include <memory>
#include <string>

#include "rpc/async.h"
#include "rpc/transport.h"

namespace simurgh::rpc::testing {

// Accepts connections and connects each to the target; subclasses forward the bytes.
//
// Threads: that of the executor. Lifetime: connections may outlive the proxy.
class Proxy {
 public:
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  // address: see rpc/address.h.
  Status Listen(const std::string& address);
  std::string address() const { return listener_->address(); }

  // Sets the target of later connections.
  void SetTarget(const std::string& address);

 protected:
  // Takes ownership of both ends of a connection.
  using Carry = std::function<void(Socket client, Socket server)>;

  Proxy(asio::any_io_executor executor, Carry carry);
  ~Proxy();

  // The end that has stopped sending can still receive.
  static void EndDirection(Socket& from, Socket& to);
  static void CloseBoth(Socket& one, Socket& other);

 private:
  struct Route;

  [[nodiscard]] static awaitable<void> AcceptLoop(std::shared_ptr<Route> route,
                                                  std::shared_ptr<Listener> listener);
  [[nodiscard]] static awaitable<void> Serve(std::shared_ptr<Route> route, Socket client);

  const asio::any_io_executor executor_;
  const std::shared_ptr<Route> route_;
  std::shared_ptr<Listener> listener_;
};

}  // namespace simurgh::rpc::testing
