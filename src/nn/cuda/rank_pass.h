#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace simurgh::cuda {

// What a training pass has to do with the other ranks of its run, if there are any. Both functions
// enqueue, in the order of the pass, and are the same calls on every rank.
struct RankPass {
  // Samples that gradients are of the mean over: of this rank's batch, or of all ranks'.
  uint64_t samples = 0;
  // Replaces f64 values in device memory by their sums over the ranks. Empty: batch norm works with
  // the statistics of this rank's batch.
  std::function<void(double* values, size_t count)> sum_statistics;
  // The parameters' gradients from `first` on are enqueued. From the last to the first; may be
  // empty.
  std::function<void(size_t first, size_t count)> on_gradients;
};

}  // namespace simurgh::cuda
