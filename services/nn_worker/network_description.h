#pragma once

#include <string>

#include "simurgh/config/cluster_config.h"

namespace simurgh {

// The dense network and its inputs as JSON, for programs that do not read the configuration: the
// text `network` of src/model/FORMAT.md.
std::string DescribeNetwork(const ClusterConfig& config);

}  // namespace simurgh
