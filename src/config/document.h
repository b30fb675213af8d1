#pragma once

#include <string>
#include <vector>

#include "config/map_reader.h"
#include "simurgh/base/status.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {

// LoadClusterConfig for a text that is already in memory; `path` names it in errors, and its folder
// is where relative paths begin.
StatusOr<ClusterConfig> ParseClusterConfig(const std::string& text, const std::string& path,
                                           const std::vector<std::string>& overrides);

// All keys of a document in the order of reading.
std::vector<KnownKey> KnownKeys();

}  // namespace simurgh
