#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <boost/asio/thread_pool.hpp>

#include "services/api/batch_client.h"
#include "services/api/vector_wire.h"
#include "services/runtime/io_thread.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/data/compact_batch.h"
#include "simurgh/train/learning_rates.h"

namespace simurgh::bench {

// A trainer without a dense network.
class WorkerDriver {
 public:
  explicit WorkerDriver(const ClusterConfig& config);
  ~WorkerDriver();

  // Submits, pulls and pushes batches in turn, `in_flight` at a time, for `seconds` and at least
  // once each. Returns the number of batches. Errors: of the calls.
  StatusOr<uint64_t> Drive(const std::vector<std::shared_ptr<const CompactBatch>>& batches,
                           uint32_t in_flight, double seconds);

 private:
  class Run;

  const size_t width_;
  const uint32_t row_age_steps_;
  const LearningRates rates_;
  VectorWire wire_;
  std::unique_ptr<BatchClient> client_;
  uint64_t step_ = 0;
  IoThread io_{"rpc"};
  rpc::asio::thread_pool encoder_{1};  // Ends before the thread to which it answers.
};

}  // namespace simurgh::bench
