#include "services/nn_worker/loader_endpoint.h"

#include <algorithm>
#include <utility>

#include "simurgh/base/log.h"

namespace simurgh {
namespace {

// Time for loaders to submit their next batch and receive the result of the run.
constexpr std::chrono::seconds kTellingTime{2};

// The loaders share the capacity of the queue of a file reader. With two batches of each loader,
// one arrives while the other is taken.
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
  spdlog::info("waiting for loaders: loaders={}", config.loaders.instances.size());
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
