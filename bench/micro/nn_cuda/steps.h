#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "bench/micro/nn/networks.h"

namespace simurgh::bench {

// A measurement is the median of several rows of repetitions.
inline constexpr size_t kRows = 5;

struct StepPoint {
  const Subject* subject = nullptr;
  size_t batch = 0;
  ComputePrecision precision = ComputePrecision::kF32;
  bool graphs = true;
  size_t repeats = 0;  // Steps in a row.
};

// Time of a row of steps, over their number.
struct StepTime {
  double ms = 0;          // With copies of other batches in the background, as in a trainer.
  double compute_ms = 0;  // Without copies of embeddings and their gradients.
};

// Measures steps on random data, with Adam. Errors: those of the network; NOT_FOUND without a
// device.
StatusOr<StepTime> MeasureSteps(const StepPoint& point);

double Median(std::vector<double> values);

}  // namespace simurgh::bench
