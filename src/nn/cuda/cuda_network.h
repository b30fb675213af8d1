#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "nn/dense_network.h"
#include "nn/model_plan.h"

namespace simurgh::cuda {

class CudaExecutor;

// A network and the name of its device.
struct CudaNetwork {
  std::unique_ptr<DenseNetwork> network;
  std::string device;
};

// Options for measurements and tests.
struct CudaTuning {
  bool graphs = true;   // Capture repeated work and replay it.
  bool poison = false;  // Fill fresh memory with NaN.
};

// Returns the name of the device. Errors: NOT_FOUND without a usable device, INVALID_ARGUMENT when
// the index is out of range.
StatusOr<std::string> FindCudaDevice(int device = 0);

// Builds the network on CUDA device options.cuda_device, in options.precision.
// Errors: INVALID_ARGUMENT, see PlanModel; NOT_FOUND without a device or without cuBLASLt;
// RESOURCE_EXHAUSTED; INTERNAL.
StatusOr<CudaNetwork> CreateCudaNetwork(const ModelConfig& model,
                                        const DenseNetworkOptions& options,
                                        const CudaTuning& tuning = {});

// Defined in networks.cu, the only file with kernels, because nvcc takes long.
StatusOr<std::unique_ptr<DenseNetwork>> CreateOnExecutor(ModelPlan plan,
                                                         std::span<const TaskConfig> tasks,
                                                         const DenseNetworkOptions& options,
                                                         std::unique_ptr<CudaExecutor> executor);

}  // namespace simurgh::cuda
