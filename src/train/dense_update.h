#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "collective/collective.h"
#include "config/training_config.h"
#include "nn/dense_network.h"
#include "train/batch_pipeline.h"
#include "train/ports.h"

namespace simurgh {

// Turns dense gradients into weights. Each training mode plugs a subclass into a trainer's step.
// This class is for one rank, and for ranks whose devices sum. A device applies gradients itself.
//
// Order of a step: BeginStep, the network's ForwardBackward, AwaitSums, then Apply, or
// DropResiduals if the step is left out.
//
// Threads: one owner; Stop by any. Lifetime: the network must outlive this.
class DenseUpdate {
 public:
  explicit DenseUpdate(DenseNetwork& network) : network_(network) {}
  virtual ~DenseUpdate() = default;
  DenseUpdate(const DenseUpdate&) = delete;
  DenseUpdate& operator=(const DenseUpdate&) = delete;

  // Call before the first step. optimizer_state: the result of OptimizerState(); empty for a new
  // optimizer.
  virtual Status Start(std::span<const float> /*optimizer_state*/) { return absl::OkStatus(); }

  // The network gets the weights of the step. Sets `ranks->on_gradients` if it sums them.
  virtual Status BeginStep(uint64_t /*step*/, uint64_t /*trace*/, float learning_rate,
                           RankStep* /*ranks*/) {
    network_applies_ = network_.ApplyNext(learning_rate);
    return absl::OkStatus();
  }
  // Lets the network start the next step, whose batch it has loaded. Call while it computes.
  void StartNext(const PulledBatch& next, const RankStep& ranks) {
    const DenseBatch& dense = next.batch->dense;
    if (network_applies_) network_.StartNext(*next.block, dense.matrix(), dense.labels, ranks);
  }
  // Waits until the gradients are those of all ranks. Unless summing has failed before, calls
  // `meanwhile` once, while this rank's are being sent, and returns its errors.
  virtual Status AwaitSums(uint64_t /*step*/, uint64_t /*trace*/,
                           absl::FunctionRef<Status()> meanwhile) {
    return meanwhile();
  }
  // Applies the step's gradients. samples: the step's; 0 if all ranks' batches were empty.
  virtual Status Apply(uint64_t /*step*/, float learning_rate, size_t /*samples*/) {
    return network_applies_ ? absl::OkStatus() : network_.ApplyGradients(learning_rate);
  }
  // Forgets the rounding errors of sums on the host, because the step is not applied or a
  // checkpoint follows. A network that sums on its device drops its own.
  virtual void DropResiduals() {}

  // --- Weights of servers; without them the network has the newest weights.

  // Waits until this rank's gradients are applied.
  virtual Status WaitForPushes() { return absl::OkStatus(); }
  // Gives the network the servers' weights.
  virtual Status PullWeights() { return absl::OkStatus(); }
  // Returns the state of the servers' optimizer; empty without servers. Call once no rank pushes.
  virtual StatusOr<std::vector<float>> OptimizerState() { return std::vector<float>(); }
  // Returns DenseVersions::gap of each push acknowledged since the last call.
  virtual std::vector<uint64_t> TakeGaps() { return {}; }

  // Ends all waiting with CANCELLED.
  virtual void Stop() {}

 protected:
  DenseNetwork& network_;

 private:
  bool network_applies_ = false;  // The network applies this step's gradients.
};

// Returns the update of the configured mode. dense_port: mode async only.
std::unique_ptr<DenseUpdate> MakeDenseUpdate(const TrainingConfig& config, uint64_t run,
                                             DenseNetwork& network, Collective& collective,
                                             DensePort* dense_port);

}  // namespace simurgh
