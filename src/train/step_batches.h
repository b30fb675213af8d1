#pragma once

#include <cstddef>

#include "simurgh/base/status.h"
#include "simurgh/nn/dense_network.h"
#include "simurgh/train/batch_pipeline.h"

namespace simurgh {

// The batches of a trainer's steps, between the pipeline and the network. A network that overlaps
// copies while it computes: the next batch in, the previous gradients out. So it has a batch taken
// ahead, and it pushes gradients one step later.
//
// Threads: one owner. Lifetime: pipeline and network must outlive this.
class StepBatches {
 public:
  StepBatches(BatchPipeline& pipeline, DenseNetwork& network)
      : pipeline_(pipeline), network_(network), overlaps_(network.overlaps()) {}

  // As BatchPipeline::Next.
  StatusOr<const PulledBatch*> Next();

  // While the network computes: copies the next batch in, if it has been pulled, and pushes the
  // previous gradients. Errors: of the network.
  Status Overlap();

  // Pushes the batch's gradients, or zeros if the step is not applied. A network that overlaps
  // pushes them during the next step, if there is one yet. Errors: of the network.
  Status Release(const PulledBatch& pulled, bool applied);

  // Pushes the previous batch's gradients, if pending. Errors: of the network.
  Status Flush();

  // The next batch, if the network has it already.
  const PulledBatch* ahead() const { return ahead_; }

  // Batches that have been read and are not pulled yet.
  size_t queued() { return pipeline_.queued(); }

 private:
  void Prefetch();

  BatchPipeline& pipeline_;
  DenseNetwork& network_;
  const bool overlaps_;
  const PulledBatch* ahead_ = nullptr;  // The next batch, if it has been taken already.
  const PulledBatch* last_ = nullptr;   // The previous batch, until its gradients are pushed.
};

}  // namespace simurgh
