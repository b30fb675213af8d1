#include "services/nn_worker/loader_endpoint.h"

#include <algorithm>

#include <spdlog/spdlog.h>

namespace simurgh {
namespace {

// All loaders together fill the queue that a reader of files has to itself; two of each keep one
// coming while one is taken.
size_t CapacityEach(const ClusterConfig& config) {
  constexpr size_t kLeast = 2;
  return std::max<size_t>(kLeast,
                          config.training.loader_queue_batches / config.loaders.instances.size());
}

}  // namespace

LoaderEndpoint::LoaderEndpoint(DaemonContext& context, const ClusterConfig& config)
    : buffer_(config.loaders.instances.size(), CapacityEach(config), config.loaders.timeout,
              config.data.max_bad_rows),
      listener_(context.metrics()),
      service_(config, buffer_, context.metrics(), listener_.executor()) {}

LoaderEndpoint::~LoaderEndpoint() { listener_.Close(); }

Status LoaderEndpoint::Listen(const DaemonContext& context) {
  SIMURGH_RETURN_IF_ERROR(
      listener_.Listen(context, [this](rpc::Server& server) { service_.Register(server); }));
  spdlog::info("waiting for {} loaders", context.config().loaders.instances.size());
  return absl::OkStatus();
}

Status LoaderEndpoint::Drain(std::chrono::steady_clock::time_point deadline) {
  buffer_.Finish();
  return listener_.Drain(deadline);
}

}  // namespace simurgh
