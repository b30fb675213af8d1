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
// Errors: INVALID_ARGUMENT for a plug-in that cannot be loaded or refuses its parameters.
StatusOr<std::unique_ptr<RowConsumer>> NewFeatureConsumer(
    const DataConfig& config, const std::vector<FeatureConfig>& features);

}  // namespace simurgh
