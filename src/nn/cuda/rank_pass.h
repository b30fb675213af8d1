#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace simurgh::cuda {

// How a training pass takes part in a run of several ranks. Both functions only enqueue; every rank
// makes the same calls.
struct RankPass {
  // Divisor of the gradients: samples of this rank's batch, or of all ranks'.
  uint64_t samples = 0;
  // Replaces f64 values in device memory by their sums over the ranks. Empty: batch norm uses the
  // statistics of this rank's batch.
  std::function<void(double* values, size_t count)> sum_statistics;
  // Called when gradients [first, first + count) are enqueued, from the last to the first. May be
  // empty.
  std::function<void(size_t first, size_t count)> on_gradients;
};

}  // namespace simurgh::cuda
