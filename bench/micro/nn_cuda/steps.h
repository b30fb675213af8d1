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
  size_t repeats = 0;  // Steps that are measured, after a quarter of them that are not.
};

// Medians.
struct StepTime {
  // From one step to the next, as a trainer takes them: every batch comes to the device, and its
  // gradients leave, while others are computed. Where that hides the copies, it is compute_ms.
  double ms = 0;
  double compute_ms = 0;  // Between the copies: forward, backward, optimizer.
};

// Steps on random data, with Adam. Errors: of the network; NOT_FOUND without a device.
StatusOr<StepTime> MeasureSteps(const StepPoint& point);

double Median(std::vector<double> values);

}  // namespace simurgh::bench
