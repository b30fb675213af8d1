#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "bench/micro/nn/networks.h"
#include "config/service_config.h"

namespace simurgh::bench {

// One part of a training step, alone: a product of a linear layer, or a kernel.
struct PartTime {
  std::string layer;  // "429x4096"
  std::string part;   // forward, input, weight
  double ms = 0;
  double flop = 0;
  double bytes = 0;   // Operands and results, each once.
  bool fused = true;  // Whether cuBLASLt fused the product's epilogue.
};

// Measures the products of all linear layers except the last. Errors: NOT_FOUND without a device;
// those of CUDA.
StatusOr<std::vector<PartTime>> MeasureProducts(const Subject& subject, size_t batch,
                                                ComputePrecision precision, size_t repeats);

// TFLOP/s of a product of 8192 x 8192 random matrices: the device's practical peak.
StatusOr<double> MeasureMatrixPeak(ComputePrecision precision);

}  // namespace simurgh::bench
