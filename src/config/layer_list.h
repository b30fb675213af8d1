#pragma once

#include <string>
#include <vector>

#include "config/map_reader.h"
#include "simurgh/config/model_config.h"

namespace simurgh {

inline constexpr uint32_t kMaxLayerWidth = 65'536;

// A list of layers under `key`. A layer without parameters is a word, one with parameters a mapping
// of one key. describe_elements: whether the reference lists the keys of an element.
void ReadLayers(MapReader& in, const std::string& key, const char* meaning, Need need,
                bool describe_elements, std::vector<LayerConfig>* layers);

}  // namespace simurgh
