#include "tests/unit/nn/test_backend.h"

namespace simurgh::testing {

StatusOr<std::unique_ptr<DenseNetwork>> CreateTestNetwork(const ModelConfig& model,
                                                          const DenseNetworkOptions& options,
                                                          bool /*replays*/) {
  return CreateCpuNetwork(model, options);
}

}  // namespace simurgh::testing
