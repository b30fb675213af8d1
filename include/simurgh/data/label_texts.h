#pragma once

#include <string>
#include <vector>

#include "simurgh/config/data_config.h"

namespace simurgh {

// A warning for each text of `positive` and `negative` of a label that is in none of the first rows
// of the training data. Empty if its first file cannot be read without its configuration.
std::vector<std::string> UnusedLabelTexts(const DataConfig& data);

}  // namespace simurgh
