#pragma once

#include <functional>
#include <memory>
#include <string>

#include "nn/model_plan.h"
#include "simurgh/base/status.h"
#include "simurgh/nn/dense_network.h"

namespace simurgh::cuda {

class CudaExecutor;

// A network and the name of the device that it is on.
struct CudaNetwork {
  std::unique_ptr<DenseNetwork> network;
  std::string device;
  // Of the last step, with CudaTuning::time_compute: milliseconds of forward, backward and
  // optimizer on the device, between the copies. Waits for them. Lifetime: of the network.
  std::function<StatusOr<double>()> compute_ms;
};

// What measurements and tests change.
struct CudaTuning {
  bool graphs = true;   // Work that comes again is captured and replayed.
  bool poison = false;  // Fresh memory is full of NaN.
  bool time_compute = false;
};

// The name of the device. Errors: NOT_FOUND without one, INVALID_ARGUMENT when there are others.
StatusOr<std::string> FindCudaDevice(int device = 0);

// Builds the network on CUDA device options.cuda_device, in options.precision.
// Errors: INVALID_ARGUMENT as PlanModel; NOT_FOUND without a device or without cuBLASLt;
// RESOURCE_EXHAUSTED; INTERNAL.
StatusOr<CudaNetwork> CreateCudaNetwork(const ModelConfig& model,
                                        const DenseNetworkOptions& options,
                                        const CudaTuning& tuning = {});

// Of one element type each, since nvcc takes long for one.
StatusOr<std::unique_ptr<DenseNetwork>> CreateFloatNetwork(ModelPlan plan,
                                                           std::span<const TaskConfig> tasks,
                                                           const DenseNetworkOptions& options,
                                                           std::unique_ptr<CudaExecutor> executor);
StatusOr<std::unique_ptr<DenseNetwork>> CreateBfloat16Network(
    ModelPlan plan, std::span<const TaskConfig> tasks, const DenseNetworkOptions& options,
    std::unique_ptr<CudaExecutor> executor);
StatusOr<std::unique_ptr<DenseNetwork>> CreateFloat16Network(
    ModelPlan plan, std::span<const TaskConfig> tasks, const DenseNetworkOptions& options,
    std::unique_ptr<CudaExecutor> executor);

}  // namespace simurgh::cuda
