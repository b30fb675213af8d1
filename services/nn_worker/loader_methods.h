#pragma once

#include <memory>
#include <string>

#include <boost/asio/thread_pool.hpp>

#include "config/cluster_config.h"
#include "rpc/async.h"
#include "rpc/server.h"
#include "services/nn_worker/loader_buffer.h"
#include "telemetry/metrics.h"

namespace simurgh {

// The nn-worker's RPC methods for loaders: receives batches into a buffer. The answer to a batch
// without space waits for space, so loaders have a bounded number of calls and wait instead of
// failing.
//
// Threads: construct anywhere; handlers run on the server's executor, decoding on its own thread.
// Lifetime: config, with its statistics fitted, and buffer outlive this; this outlives the server.
class LoaderService {
 public:
  static inline const CounterFamily kFedBatchesTotal{
      "simurgh_nn_fed_batches_total", "Batches taken from loaders, including repeated ones."};
  static inline const CounterFamily kFeedWaitsTotal{
      "simurgh_nn_feed_waits_total",
      "Times that a loader's batch waited for its turn or for space."};

  // rank: index into config.nn_worker.instances.
  LoaderService(const ClusterConfig& config, uint32_t rank, LoaderBuffer& buffer,
                MetricRegistry& registry, rpc::asio::any_io_executor executor);
  // Requires that the server has been destroyed.
  ~LoaderService();

  // Registers OpenFeed, FeedBatch and EndFeed.
  void Register(rpc::Server& server);

 private:
  struct Methods;

  const ClusterConfig& config_;
  const uint32_t rank_;
  const std::string input_;
  LoaderBuffer& buffer_;
  Counter& batches_;
  Counter& waits_;
  std::shared_ptr<rpc::WaitList> waiters_;
  rpc::asio::thread_pool decoding_{1};
};

}  // namespace simurgh
