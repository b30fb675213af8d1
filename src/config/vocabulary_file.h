#pragma once

#include <string>
#include <vector>

#include "config/map_reader.h"

namespace simurgh {

// The lines of the file that `key` names, if it does: one value each. Does nothing where there
// are words already. The path is made relative to
// `folder`. A line that is empty, too long or a repetition is reported by its number.
void ReadVocabularyFile(MapReader& in, const std::string& key, const std::string& folder,
                        std::vector<std::string>* words);

}  // namespace simurgh
