#pragma once

#include "rpc/server.h"
#include "services/nn_worker/feed_buffer.h"
#include "services/nn_worker/feed_methods.h"

namespace simurgh {

// Where an nn-worker takes batches from loaders: a buffer and the methods that fill it.
//
// Threads: the daemon's main thread.
class LoaderEndpoint {
 public:
  // config: with statistics fitted; outlives this. rank: whose end this is. executor: the server's.
  LoaderEndpoint(const ClusterConfig& config, uint32_t rank, MetricRegistry& registry,
                 rpc::asio::any_io_executor executor);

  void Register(rpc::Server& server) { service_.Register(server); }

  FeedBuffer& buffer() { return buffer_; }

  // The run has ended so. Loaders that still feed are told, if they ask soon.
  void Finish(const Status& status);

 private:
  FeedBuffer buffer_;
  FeedService service_;
};

}  // namespace simurgh
