#include "tests/unit/nn/cuda/host_backend.h"

#include "nn/cuda/device_network.h"
#include "nn/cuda/float16.h"
#include "nn/model_plan.h"
#include "tests/unit/nn/test_backend.h"

namespace simurgh::testing {

StatusOr<std::unique_ptr<DenseNetwork>> CreateHostNetwork(const ModelConfig& model,
                                                          const DenseNetworkOptions& options,
                                                          const HostExecutor::Options& executor) {
  SIMURGH_ASSIGN_OR_RETURN(ModelPlan plan, PlanModel(model, options.inputs));
  HostExecutor::Options with_precision = executor;
  with_precision.precision = options.precision;
  auto device = std::make_unique<HostExecutor>(with_precision);
  if (options.precision == ComputePrecision::kBf16) {
    return cuda::DeviceNetwork<HostExecutor, cuda::Bfloat16>::Create(
        std::move(plan), TasksOf(model), options, std::move(device));
  }
  if (options.precision == ComputePrecision::kF16) {
    return cuda::DeviceNetwork<HostExecutor, cuda::Float16>::Create(std::move(plan), TasksOf(model),
                                                                    options, std::move(device));
  }
  return cuda::DeviceNetwork<HostExecutor, float>::Create(std::move(plan), TasksOf(model), options,
                                                          std::move(device));
}

StatusOr<std::unique_ptr<DenseNetwork>> CreateTestNetwork(const ModelConfig& model,
                                                          const DenseNetworkOptions& options,
                                                          bool replays) {
  return CreateHostNetwork(model, options, {.replays = replays});
}

bool BackendHas(ComputePrecision /*precision*/) { return true; }

}  // namespace simurgh::testing
