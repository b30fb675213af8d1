#pragma once

#include <string>
#include <vector>

#include "bench/micro/nn_cuda/options.h"
#include "simurgh/base/status.h"

namespace simurgh::bench {

// Runs the same steps in PyTorch on the same device by bench/peers/pytorch_nn.py, which prints its
// times and a comparison. steps: our lines, as JSON. Without PyTorch it prints a line with SKIPPED.
// Errors: INTERNAL when the peer cannot be started or fails.
Status RunPeer(const NnCudaOptions& options, const std::vector<std::string>& steps);

}  // namespace simurgh::bench
