#include <cstdlib>
#include <string_view>

#include "nn/cuda/cuda_network.h"
#include "tests/unit/nn/test_backend.h"

namespace simurgh::testing {
namespace {

// Whether the environment variable is 0: scripts/gpu_check.sh repeats cases without a feature.
bool IsOff(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "0";
}

}  // namespace

StatusOr<std::unique_ptr<DenseNetwork>> CreateTestNetwork(const ModelConfig& model,
                                                          const DenseNetworkOptions& options,
                                                          bool replays) {
  SIMURGH_ASSIGN_OR_RETURN(
      cuda::CudaNetwork created,
      cuda::CreateCudaNetwork(model, options,
                              {.graphs = replays && !IsOff("SIMURGH_TEST_GRAPHS"),
                               .poison = !IsOff("SIMURGH_TEST_POISON")}));
  return std::move(created.network);
}

bool BackendHas(ComputePrecision /*precision*/) { return true; }

}  // namespace simurgh::testing
