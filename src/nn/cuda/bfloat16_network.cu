// The network of element Bfloat16 with all its kernels.

#include "nn/cuda/cuda_network.h"
#include "nn/cuda/device_network.h"
#include "nn/cuda/launch.cuh"

namespace simurgh::cuda {

StatusOr<std::unique_ptr<DenseNetwork>> CreateBfloat16Network(
    ModelPlan plan, std::span<const TaskConfig> tasks, const DenseNetworkOptions& options,
    std::unique_ptr<CudaExecutor> executor) {
  return DeviceNetwork<CudaExecutor, Bfloat16>::Create(std::move(plan), tasks, options,
                                                       std::move(executor));
}

}  // namespace simurgh::cuda
