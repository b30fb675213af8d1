#pragma once

#include <string>

#include "config/map_reader.h"
#include "simurgh/config/feature_config.h"

namespace simurgh {

// Reads the keys of the steps from cells to ids; resolves paths in `folder`.
void ReadProcessing(MapReader& in, const std::string& folder, bool is_crossed,
                    ProcessingConfig* processing);

}  // namespace simurgh
