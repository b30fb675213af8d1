#pragma once

#include <memory>

#include "nn/dense_network.h"
#include "tests/unit/nn/cuda/host_executor.h"

namespace simurgh::testing {

// The CUDA backend's network on a HostExecutor. In options.precision: f32 and tf32 are the same.
StatusOr<std::unique_ptr<DenseNetwork>> CreateHostNetwork(const ModelConfig& model,
                                                          const DenseNetworkOptions& options,
                                                          const HostExecutor::Options& executor);

}  // namespace simurgh::testing
