#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "config/cluster_config.h"
#include "services/simurgh/day_files.h"

namespace simurgh {

// Reads the first rows of each file, so that bad data is found before a daemon runs. Returns
// warnings about columns without a value in all of these rows.
// Errors: INVALID_ARGUMENT, naming the file and the row; also if no file has a row.
StatusOr<std::vector<std::string>> CheckRows(const ClusterConfig& config,
                                             const std::vector<DayFile>& files);

}  // namespace simurgh
