#pragma once

#include <string>
#include <vector>

#include "config/map_reader.h"
#include "simurgh/config/model_config.h"

namespace simurgh {

inline constexpr uint32_t kMaxLayerWidth = 65'536;

// A list of layers under `key`. A layer without parameters is a word, one with parameters a mapping
// of one key. fallback: describes the layers that an absent key stands for; empty: the key is
// required, and the reference lists the keys of an element.
void ReadLayers(MapReader& in, const std::string& key, const char* meaning,
                const std::string& fallback, std::vector<LayerConfig>* layers);

}  // namespace simurgh
