#include "nn/cuda/cuda_network.h"
#include "tests/unit/nn/test_backend.h"

namespace simurgh::testing {

StatusOr<std::unique_ptr<DenseNetwork>> CreateTestNetwork(const ModelConfig& model,
                                                          const DenseNetworkOptions& options,
                                                          bool replays) {
  SIMURGH_ASSIGN_OR_RETURN(
      cuda::CudaNetwork created,
      cuda::CreateCudaNetwork(model, options, {.graphs = replays, .poison = true}));
  return std::move(created.network);
}

bool BackendHas(ComputePrecision /*precision*/) { return true; }

}  // namespace simurgh::testing
