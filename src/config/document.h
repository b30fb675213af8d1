#pragma once

#include <string>
#include <vector>

#include "config/map_reader.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {

// All keys in the order of reading.
std::vector<KnownKey> KnownKeys();

}  // namespace simurgh
