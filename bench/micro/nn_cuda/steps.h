#pragma once

#include <cstddef>
#include <vector>

#include "bench/micro/nn/networks.h"
#include "simurgh/base/status.h"

namespace simurgh::bench {

struct StepPoint {
  const Subject* subject = nullptr;
  size_t batch = 0;
  ComputePrecision precision = ComputePrecision::kF32;
  bool graphs = true;
  size_t repeats = 0;  // Measured steps, after a quarter as many to warm up.
};

// Medians.
struct StepTime {
  // From one step to the next, with copies of other batches in the background as in a trainer.
  // Equals compute_ms if the copies are hidden.
  double ms = 0;
  double compute_ms = 0;  // Forward, backward and optimizer, without copies.
};

// Measures steps on random data, with Adam. Errors: those of the network; NOT_FOUND without a
// device.
StatusOr<StepTime> MeasureSteps(const StepPoint& point);

double Median(std::vector<double> values);

}  // namespace simurgh::bench
