#pragma once

#include <string>

#include "config/map_reader.h"
#include "simurgh/config/feature_config.h"

namespace simurgh {

// The keys of a feature that say how cells become ids. Paths of files are made relative to
// `folder`.
void ReadProcessing(MapReader& in, const std::string& folder, bool is_crossed,
                    ProcessingConfig* processing);

}  // namespace simurgh
