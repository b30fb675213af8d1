#pragma once

#include <cstdint>
#include <string>

#include "config/map_reader.h"
#include "simurgh/config/feature_config.h"
#include "simurgh/config/plugin_config.h"

namespace simurgh {

// Reads `plugin` of a feature or derived column; resolves its path in `folder`. max_ids: or null.
void ReadPlugin(MapReader& in, const std::string& folder, PluginConfig* plugin, uint32_t* max_ids);

// Reads the keys of the steps from cells to ids; resolves paths in `folder`.
void ReadProcessing(MapReader& in, const std::string& folder, bool is_crossed,
                    ProcessingConfig* processing);

}  // namespace simurgh
