#pragma once

#include "simurgh/config/cluster_config.h"
#include "simurgh/feature/batch_plan.h"
#include "simurgh/feature/bucket_map.h"

namespace simurgh {

// The layout of batches and the placement of rows, from the configuration.
BatchLayout LayoutOf(const ClusterConfig& config);
BucketMap MapOf(const ClusterConfig& config);

}  // namespace simurgh
