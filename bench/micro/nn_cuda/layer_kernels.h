#pragma once

#include <vector>

#include "bench/micro/nn_cuda/layer_products.h"

namespace simurgh::bench {

// Measures interactions, cross layers and batch norms, forward and backward, and Adam's step over
// all weights. Errors: NOT_FOUND without a device; those of CUDA.
StatusOr<std::vector<PartTime>> MeasureKernels(const Subject& subject, size_t batch,
                                               ComputePrecision precision, size_t repeats);

}  // namespace simurgh::bench
