#pragma once

#include "simurgh/config/cluster_config.h"
#include "simurgh/nn/model.h"

namespace simurgh {

// What the dense network of a configuration reads: dense columns, masks of raw features, and
// embeddings.
ModelInputs InputsOf(const ClusterConfig& config);

}  // namespace simurgh
