#pragma once

#include <string>
#include <vector>

#include "bench/micro/nn_cuda/options.h"
#include "simurgh/base/status.h"

namespace simurgh::bench {

// Runs the same steps in PyTorch on the same device, by bench/peers/pytorch_nn.py, which prints its
// times and a table of both. steps: our lines, as JSON. Where PyTorch is missing, a line says so.
// Errors: INTERNAL when the peer cannot be started, or fails.
Status RunPeer(const NnCudaOptions& options, const std::vector<std::string>& steps);

}  // namespace simurgh::bench
