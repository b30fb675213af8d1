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
// Lifetime: what the registered handlers use must outlive this.
class Listener {
 public:
  explicit Listener(DaemonContext& context);
  ~Listener();

  // Registers methods and listens at the instance's address, as the context's configuration says.
  // Errors: of rpc::Server::Listen, naming the configuration key.
  Status Listen(const DaemonContext& context,
                const std::function<void(rpc::Server&)>& register_methods);

  // Stops accepting, answers what has arrived, cancels the rest at the deadline.
  Status Drain(std::chrono::steady_clock::time_point deadline);

  // Ends the server; nothing is accepted or answered any more. Before what its handlers use goes.
  void Close();

  // Where handlers run.
  rpc::asio::any_io_executor executor() { return thread_.executor(); }

  // Runs a function there and waits for it.
  void RunAndWait(const std::function<void()>& function) { thread_.RunAndWait(function); }

 private:
  RpcMetrics observer_;
  std::unique_ptr<rpc::Server> server_;
  IoThread thread_;
};

}  // namespace simurgh
