#include "nn/cuda/cuda_network.h"

#include <utility>

#include "nn/cuda/cuda_executor.h"

namespace simurgh::cuda {

StatusOr<std::string> FindCudaDevice(int device) { return CudaExecutor::FindDevice(device); }

StatusOr<CudaNetwork> CreateCudaNetwork(const ModelConfig& model,
                                        const DenseNetworkOptions& options,
                                        const CudaTuning& tuning) {
  SIMURGH_ASSIGN_OR_RETURN(ModelPlan plan, PlanModel(model, options.inputs));
  SIMURGH_ASSIGN_OR_RETURN(std::unique_ptr<CudaExecutor> executor,
                           CudaExecutor::Create({.device = static_cast<int>(options.cuda_device),
                                                 .precision = options.precision,
                                                 .graphs = tuning.graphs,
                                                 .poison = tuning.poison}));
  CudaNetwork result{.device = executor->device_name()};
  SIMURGH_ASSIGN_OR_RETURN(result.network, CreateOnExecutor(std::move(plan), TasksOf(model),
                                                            options, std::move(executor)));
  return result;
}

}  // namespace simurgh::cuda
