#include "services/nn_worker/loader_endpoint.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

namespace simurgh {
namespace {

// For loaders to come with their next batch, if they are not waiting with it already.
constexpr std::chrono::seconds kTellingTime{2};

// All loaders together fill the queue that a reader of files has to itself; two of each keep one
// coming while one is taken.
size_t CapacityEach(const ClusterConfig& config) {
  constexpr size_t kLeast = 2;
  return std::max<size_t>(kLeast,
                          config.training.loader_queue_batches / config.loaders.instances.size());
}

}  // namespace

LoaderEndpoint::LoaderEndpoint(const ClusterConfig& config, uint32_t rank, MetricRegistry& registry,
                               rpc::asio::any_io_executor executor)
    : buffer_(config.loaders.instances.size(), CapacityEach(config),
              config.loaders.feed_buffer_bytes, config.loaders.timeout, config.data.max_bad_rows),
      service_(config, rank, buffer_, registry, std::move(executor)) {
  spdlog::info("waiting for {} loaders", config.loaders.instances.size());
}

void LoaderEndpoint::Finish(const Status& status) {
  if (status.ok()) {
    buffer_.Finish();
  } else {
    buffer_.Fail(std::string(status.message()));
  }
  buffer_.AwaitToldAll(std::chrono::steady_clock::now() + kTellingTime);
}

}  // namespace simurgh
