#pragma once

#include <string>
#include <vector>

#include "bench/micro/nn/networks.h"
#include "simurgh/base/status.h"
#include "simurgh/config/service_config.h"

namespace simurgh::bench {

// One part of a training step, alone: a product of a linear layer, or a kernel.
struct PartTime {
  std::string layer;  // "429x4096"
  std::string part;   // forward, input, weight
  double ms = 0;
  double flop = 0;
  double bytes = 0;   // Of operands and results, each once.
  bool fused = true;  // A product's epilogue was done with it.
};

// Each product of each linear layer but the logit's. Errors: NOT_FOUND without a device; of CUDA.
StatusOr<std::vector<PartTime>> MeasureProducts(const Subject& subject, size_t batch,
                                                ComputePrecision precision, size_t repeats);

// TFLOP/s of a product of 8192 x 8192 matrices of random values: what the device does at best.
StatusOr<double> MeasureMatrixPeak(ComputePrecision precision);

}  // namespace simurgh::bench
