#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "config/cluster_config.h"
#include "data/batch/batch.h"
#include "embedding/vector_codec.h"
#include "services/api/batch_rpc.h"
#include "services/runtime/io_thread.h"
#include "train/learning_rates.h"

namespace simurgh::bench {

// A trainer without a loader and a dense network: batches are encoded already, and gradients are
// constants in the precision of the wire.
class WorkerDriver {
 public:
  explicit WorkerDriver(const ClusterConfig& config);
  ~WorkerDriver();

  // Submits, pulls and pushes batches in turn, `in_flight` at a time, for `seconds` and at least
  // once each. Returns the number of batches. Errors: of the calls.
  StatusOr<uint64_t> Drive(const std::vector<SubmittedIds>& batches, uint32_t in_flight,
                           double seconds);

 private:
  class Run;

  AlignedBuffer GradientsOf(size_t samples) const;

  const VectorCodec embeddings_;
  const VectorCodec gradients_;
  const uint32_t row_age_steps_;
  const LearningRates rates_;
  std::unique_ptr<BatchClient> client_;
  uint64_t step_ = 0;
  IoThread io_{"rpc"};
};

}  // namespace simurgh::bench
