#pragma once

#include <string>
#include <vector>

#include "bench/micro/nn_cuda/networks.h"

#include "simurgh/base/status.h"
#include "simurgh/config/service_config.h"

namespace simurgh::bench {

// One product of a linear layer as a training step does it, alone.
struct ProductTime {
  std::string layer;  // "429x4096"
  std::string part;   // forward, input, weight
  double ms = 0;
  double tflops = 0;
  double gb_per_s = 0;  // Of operands and result, each once.
  bool fused = false;   // Its epilogue was done with it.
};

// Each product of each linear layer but the logit's. Errors: NOT_FOUND without a device; of CUDA.
StatusOr<std::vector<ProductTime>> MeasureProducts(const Subject& subject, size_t batch,
                                                   ComputePrecision precision, size_t repeats);

// TFLOP/s of a product of 8192 x 8192 matrices of random values: what the device does at best.
StatusOr<double> MeasureMatrixPeak(ComputePrecision precision);

}  // namespace simurgh::bench
