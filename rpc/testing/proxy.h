#pragma once

// What stands between clients and a server of a test.

#include <functional>
#include <memory>
#include <string>

#include "rpc/async.h"
#include "rpc/transport.h"

namespace simurgh::rpc::testing {

// Takes connections and connects each to its target; what passes between the two is another's.
//
// Threads: one, that of its executor. Lifetime: connections through it may outlive it.
class Proxy {
 public:
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  // address: as rpc::Server::Listen.
  Status Listen(const std::string& address);
  std::string address() const { return listener_->address(); }

  // Where connections accepted from now on lead.
  void SetTarget(const std::string& address);

 protected:
  // Owns both ends of a connection from here on.
  using Carry = std::function<void(Socket client, Socket server)>;

  Proxy(asio::any_io_executor executor, Carry carry);
  ~Proxy();

  // Whoever has stopped sending may still listen.
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
