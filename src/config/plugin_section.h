#pragma once

#include <cstdint>
#include <string>

#include "config/map_reader.h"
#include "simurgh/config/plugin_config.h"

namespace simurgh {

// The mapping `plugin` of a feature or a derived column; its path is made relative to `folder`.
// max_ids: where to put that key, which is unknown when this is null.
void ReadPlugin(MapReader& in, const std::string& folder, PluginConfig* plugin, uint32_t* max_ids);

}  // namespace simurgh
