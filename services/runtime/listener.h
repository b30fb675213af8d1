#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "rpc/server.h"
#include "services/runtime/daemon.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/rpc_metrics.h"
#include "simurgh/base/status.h"

namespace simurgh {

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
  // Errors: of rpc::Server::Listen, with the configuration key; CANCELLED after a stop.
  Status Listen(DaemonContext& context, const std::function<void(rpc::Server&)>& register_methods) {
    return Listen(context, context.rpc_options().server, register_methods);
  }
  Status Listen(DaemonContext& context, const rpc::ServerOptions& options,
                const std::function<void(rpc::Server&)>& register_methods);

  // Stops accepting, answers the requests that have arrived, cancels the rest at the deadline.
  void Drain(std::chrono::steady_clock::time_point deadline);

  // Destroys the server. Call before destroying objects that handlers use.
  void Close();

  // Runs the handlers.
  IoThread& thread() { return thread_; }

 private:
  RpcMetrics observer_;
  std::unique_ptr<rpc::Server> server_;
  IoThread thread_;
};

}  // namespace simurgh
