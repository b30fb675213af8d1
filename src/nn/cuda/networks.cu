// The networks with all their kernels, in one file: many kernels do not depend on the element.

#include "nn/cuda/cuda_network.h"
#include "nn/cuda/device_network.h"
#include "nn/cuda/float16.h"
#include "nn/cuda/launch.cuh"

namespace simurgh::cuda {

StatusOr<std::unique_ptr<DenseNetwork>> CreateOnExecutor(ModelPlan plan,
                                                         std::span<const TaskConfig> tasks,
                                                         const DenseNetworkOptions& options,
                                                         std::unique_ptr<CudaExecutor> executor) {
  const auto create =
      options.precision == ComputePrecision::kBf16  ? &DeviceNetwork<CudaExecutor, Bfloat16>::Create
      : options.precision == ComputePrecision::kF16 ? &DeviceNetwork<CudaExecutor, Float16>::Create
                                                    : &DeviceNetwork<CudaExecutor, float>::Create;
  return create(std::move(plan), tasks, options, std::move(executor));
}

}  // namespace simurgh::cuda
