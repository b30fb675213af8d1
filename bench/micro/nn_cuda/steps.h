#pragma once

#include <cstddef>
#include <vector>

#include "bench/micro/nn_cuda/networks.h"

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
  double ms = 0;          // As a caller sees it: staging and copies both ways, too.
  double compute_ms = 0;  // Between the copies: forward, backward, optimizer.
};

// Steps on random data, with Adam. Errors: of the network; NOT_FOUND without a device.
StatusOr<StepTime> MeasureSteps(const StepPoint& point);

double Median(std::vector<double> values);

}  // namespace simurgh::bench
