#pragma once

#include <string>

#include "base/status.h"
#include "bench/micro/nn_cuda/options.h"

namespace simurgh::bench {

// Measures each product of the networks' layers with every answer of cuBLASLt: fused with its
// epilogue, and followed by a kernel. Prints lines for the table in nn/cuda/product_choices.cc,
// where the first fused answer is not the fastest. Errors: those of CUDA.
Status ChooseProducts(const NnCudaOptions& options, const std::string& device);

}  // namespace simurgh::bench
