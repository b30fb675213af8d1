#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/cluster_config.h"

namespace simurgh {

// The towers of a model whose prediction is the dot product of a user's and an item's vector.
struct TwoTowers {
  std::string user;  // Names of towers.
  std::string item;
};

// Returns the two towers that the last one reads; nothing for another model. Requires valid towers.
std::optional<TwoTowers> TwoTowersOf(const ClusterConfig& config);

// Returns the names of the columns that a tower reads, directly or by other towers, in the order of
// the data.
std::vector<std::string> ColumnsOfTower(const ClusterConfig& config, const std::string& tower);

// Returns those of the columns that have ids.
std::vector<std::string> IdColumnsOfTower(const ClusterConfig& config, const std::string& tower);

}  // namespace simurgh
