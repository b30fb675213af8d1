#pragma once

#include <memory>

#include "nn/dense_network.h"

namespace simurgh::testing {

// Creates a network of the backend under test; each test program links one backend.
// replays: capture and replay repeated work, if the backend supports it.
StatusOr<std::unique_ptr<DenseNetwork>> CreateTestNetwork(const ModelConfig& model,
                                                          const DenseNetworkOptions& options,
                                                          bool replays = true);

// Whether the backend computes in this precision on this machine.
bool BackendHas(ComputePrecision precision);

}  // namespace simurgh::testing
