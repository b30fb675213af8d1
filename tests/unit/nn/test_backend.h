#pragma once

#include <memory>

#include "simurgh/nn/dense_network.h"

namespace simurgh::testing {

// The backend under test: every program that compiles the tests of DenseNetwork has its own.
StatusOr<std::unique_ptr<DenseNetwork>> CreateTestNetwork(const ModelConfig& model,
                                                          const DenseNetworkOptions& options);

}  // namespace simurgh::testing
