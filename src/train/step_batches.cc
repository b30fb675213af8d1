#include "train/step_batches.h"

#include <algorithm>
#include <utility>

#include "simurgh/telemetry/timeline.h"

namespace simurgh {

StatusOr<const PulledBatch*> StepBatches::Next() {
  if (ahead_ != nullptr) return std::exchange(ahead_, nullptr);
  return pipeline_.Next();
}

Status StepBatches::Overlap() {
  Prefetch();
  return Flush();
}

void StepBatches::Prefetch() {
  if (!overlaps_ || ahead_ != nullptr) return;
  ahead_ = pipeline_.TakeNext();
  if (ahead_ == nullptr) return;
  const TimelineSpan span("copy in", ahead_->step, ahead_->trace);
  const DenseBatch& dense = ahead_->batch->dense;
  network_.Load(*ahead_->block, dense.matrix(), dense.labels);
}

Status StepBatches::Release(const PulledBatch& pulled, bool applied) {
  SIMURGH_RETURN_IF_ERROR(Flush());
  Prefetch();
  last_ = &pulled;
  if (!applied) {
    SIMURGH_RETURN_IF_ERROR(network_.AwaitGradients(*pulled.block));
    std::ranges::fill(pulled.block->encoded_gradients.bytes, std::byte{0});
  } else if (ahead_ != nullptr) {
    return absl::OkStatus();  // The next step pushes the gradients while the device computes.
  }
  return Flush();
}

Status StepBatches::Flush() {
  if (last_ == nullptr) return absl::OkStatus();
  const PulledBatch& last = *std::exchange(last_, nullptr);
  if (overlaps_) {
    const TimelineSpan span("copy out", last.step, last.trace);
    SIMURGH_RETURN_IF_ERROR(network_.AwaitGradients(*last.block));
  }
  pipeline_.Finish();
  return absl::OkStatus();
}

}  // namespace simurgh
