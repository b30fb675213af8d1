#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/process/row_cells.h"
#include "simurgh/base/status.h"
#include "simurgh/config/feature_config.h"

namespace simurgh {

// Adds every feature's ids to the open sample.
//
// columns: names, in the order of the cells.
// Errors: INVALID_ARGUMENT when a feature names a column that is not there.
StatusOr<std::unique_ptr<CellSink>> NewFeatureSink(const std::vector<std::string>& columns,
                                                   const std::vector<FeatureConfig>& features);

}  // namespace simurgh
