#pragma once

#include "services/nn_worker/feed_buffer.h"
#include "services/nn_worker/feed_methods.h"
#include "services/runtime/daemon.h"
#include "services/runtime/listener.h"

namespace simurgh {

// Where an nn-worker takes batches from loaders: buffer, methods and listener, in the order of
// their lives.
//
// Threads: the daemon's main thread.
class LoaderEndpoint {
 public:
  // config: of the context, with statistics fitted; outlives this.
  LoaderEndpoint(DaemonContext& context, const ClusterConfig& config);
  // After Drain.
  ~LoaderEndpoint();

  // Errors: of Listener::Listen.
  Status Listen(const DaemonContext& context);

  FeedBuffer& buffer() { return buffer_; }

  // Loaders that still feed are told that nothing more is wanted.
  Status Drain(std::chrono::steady_clock::time_point deadline);

 private:
  FeedBuffer buffer_;
  Listener listener_;
  FeedService service_;
};

}  // namespace simurgh
