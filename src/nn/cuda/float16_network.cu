// The network of element Float16 with all its kernels.

#include "nn/cuda/cuda_network.h"
#include "nn/cuda/device_network.h"
#include "nn/cuda/float16.h"
#include "nn/cuda/launch.cuh"

namespace simurgh::cuda {

StatusOr<std::unique_ptr<DenseNetwork>> CreateFloat16Network(
    ModelPlan plan, std::span<const TaskConfig> tasks, const DenseNetworkOptions& options,
    std::unique_ptr<CudaExecutor> executor) {
  return DeviceNetwork<CudaExecutor, Float16>::Create(std::move(plan), tasks, options,
                                                      std::move(executor));
}

}  // namespace simurgh::cuda
