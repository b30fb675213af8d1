#pragma once

#include "rpc/server.h"
#include "services/nn_worker/feed_buffer.h"
#include "services/nn_worker/feed_methods.h"

namespace simurgh {

// Receives batches from loaders: a buffer and the methods that fill it.
//
// Threads: the daemon's main thread.
class LoaderEndpoint {
 public:
  // config: with statistics fitted; outlives this. rank: of this nn-worker. executor: the server's.
  LoaderEndpoint(const ClusterConfig& config, uint32_t rank, MetricRegistry& registry,
                 rpc::asio::any_io_executor executor);

  void Register(rpc::Server& server) { service_.Register(server); }

  FeedBuffer& buffer() { return buffer_; }

  // The run has ended with `status`. Loaders that still feed get it, unless they take too long.
  void Finish(const Status& status);

 private:
  FeedBuffer buffer_;
  FeedService service_;
};

}  // namespace simurgh
