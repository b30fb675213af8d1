#pragma once

#include "simurgh/config/cluster_config.h"
#include "simurgh/feature/batch_plan.h"
#include "simurgh/feature/bucket_map.h"

namespace simurgh {

// The layout of the cluster's batches, and the owners of its rows, as its configuration says.
BatchLayout LayoutOf(const ClusterConfig& config);
BucketMap MapOf(const ClusterConfig& config);

}  // namespace simurgh
