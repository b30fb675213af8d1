#pragma once

#include <string>
#include <vector>

#include "config/map_reader.h"

namespace simurgh {

// Reads the file of `key`, one value per line, unless there are words already. Resolves the path in
// `folder`. Reports empty, long and repeated lines by number.
void ReadVocabularyFile(MapReader& in, const std::string& key, const std::string& folder,
                        std::vector<std::string>* words);

}  // namespace simurgh
