#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/process/row_cells.h"
#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"
#include "simurgh/config/feature_config.h"

namespace simurgh {

// Adds every feature's ids, and the derived dense values of `config`, to the open sample.
//
// columns: names, in the order of the cells.
// Errors: INVALID_ARGUMENT when a column is named that is not there; of plug-ins.
StatusOr<std::unique_ptr<RowConsumer>> NewFeatureSink(const std::vector<std::string>& columns,
                                                      const DataConfig& config,
                                                      const std::vector<FeatureConfig>& features);

}  // namespace simurgh
