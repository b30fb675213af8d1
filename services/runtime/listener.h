#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <netdb.h>

#include <boost/asio/ip/tcp.hpp>

#include "base/status.h"
#include "rpc/async.h"
#include "rpc/server.h"
#include "services/runtime/daemon.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/rpc_setup.h"

namespace simurgh {

// Waits until the host of a listening address resolves: the name of a container resolves only some
// time after its start. Names the host in the log and in /readyz meanwhile. address: see
// rpc/address.h. key: its configuration key.
// Errors: CANCELLED after a stop.
Status AwaitOwnHost(DaemonContext& context, const std::string& key, const std::string& address);

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// Returns null if the name does not resolve. error: receives the code of getaddrinfo().
Addresses Resolve(const std::string& host, uint16_t port, int* error = nullptr);
// Returns the errno of a bind to the first address, 0 if a program could listen there.
int TryBind(const Addresses& addresses);

struct TcpListener {
  boost::asio::ip::tcp::acceptor acceptor;
  std::string address;  // The numeric "host:port".
  bool is_loopback = false;
};

// Listens for plain connections. address: "host:port"; port 0 takes any free port. key: its
// configuration key, for errors.
// Errors: INVALID_ARGUMENT if the address cannot be parsed or resolved; ALREADY_EXISTS if it is in
// use; UNAVAILABLE for other errors of the system.
StatusOr<TcpListener> ListenAt(boost::asio::any_io_executor executor, const std::string& address,
                               const std::string& key);

// A daemon's RPC server with the thread that runs it.
//
// Threads: the daemon's main thread.
// Lifetime: objects that handlers use must outlive this, or the call of Close().
class Listener {
 public:
  explicit Listener(DaemonContext& context);
  ~Listener();

  // Registers methods and listens at the instance's address. options: by default the context's.
  // Waits for the name of its own host. Also answers `ready`.
  // Errors: those of rpc::Server::Listen, with the configuration key; CANCELLED after a stop.
  Status Listen(DaemonContext& context, const std::function<void(rpc::Server&)>& register_methods) {
    return Listen(context, context.rpc_options().server, register_methods);
  }
  Status Listen(DaemonContext& context, const rpc::ServerOptions& options,
                const std::function<void(rpc::Server&)>& register_methods);

  // Stops accepting, answers the requests that have arrived, cancels the rest at the deadline.
  void Drain(std::chrono::steady_clock::time_point deadline);

  // Destroys the server. Call before destroying objects that handlers use.
  void Close();

  // Returns the thread that runs the handlers.
  IoThread& thread() { return thread_; }

 private:
  RpcMetrics observer_;
  std::unique_ptr<rpc::Server> server_;
  IoThread thread_;
};

}  // namespace simurgh
