#pragma once

#include "simurgh/config/cluster_config.h"
#include "simurgh/config/serving_config.h"

namespace simurgh::api {

// The processes that exchange a model's rows, as a cluster: its parameter servers are
// serving.servers, its name is the same for all models. Both ends use it for HELLO.
ClusterConfig ClusterOf(const ServingConfig& config);

}  // namespace simurgh::api
