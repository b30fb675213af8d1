#pragma once

#include <string>
#include <vector>

#include "config/map_reader.h"
#include "simurgh/base/status.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {

// LoadClusterConfig for a text in memory. path: for errors; relative paths start in its folder.
StatusOr<ClusterConfig> ParseClusterConfig(const std::string& text, const std::string& path,
                                           const std::vector<std::string>& overrides);

// All keys in the order of reading.
std::vector<KnownKey> KnownKeys();

}  // namespace simurgh
