#pragma once

#include "config/map_reader.h"
#include "simurgh/config/feature_config.h"

namespace simurgh {

// The keys of a feature that say how cells become ids.
void ReadProcessing(MapReader& in, bool is_crossed, ProcessingConfig* processing);

}  // namespace simurgh
