#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/map_reader.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {

// The text of a YAML file or pipe. Errors: NOT_FOUND, INVALID_ARGUMENT, with the path.
StatusOr<std::string> ReadConfigFile(const std::string& path);

// All keys in the order of reading. alternatives: see ReadContext; may be null.
std::vector<KnownKey> KnownKeys(
    std::map<std::string, std::vector<std::string>>* alternatives = nullptr);

}  // namespace simurgh
