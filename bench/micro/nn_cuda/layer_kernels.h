#pragma once

#include <vector>

#include "bench/micro/nn_cuda/layer_products.h"

namespace simurgh::bench {

// What is no matrix product of a linear layer, but costs as much as one may: interactions, cross
// layers and batch norm forward and back, and Adam's step over all weights. Errors: NOT_FOUND
// without a device; of CUDA.
StatusOr<std::vector<PartTime>> MeasureKernels(const Subject& subject, size_t batch,
                                               ComputePrecision precision, size_t repeats);

}  // namespace simurgh::bench
