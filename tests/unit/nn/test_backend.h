#pragma once

#include <memory>

#include "simurgh/nn/dense_network.h"

namespace simurgh::testing {

// The backend under test: every program that compiles the tests of DenseNetwork has its own.
// replays: work that comes again is captured, and replayed from then on, where there is such a
// thing.
StatusOr<std::unique_ptr<DenseNetwork>> CreateTestNetwork(const ModelConfig& model,
                                                          const DenseNetworkOptions& options,
                                                          bool replays = true);

// Whether the backend computes in bf16 on this machine.
bool BackendHasBf16();

}  // namespace simurgh::testing
