#pragma once

#include <string>
#include <vector>

#include "config/data_config.h"

namespace simurgh {

// A warning for each text of `positive` and `negative` of a label that is in none of the first
// 200,000 rows of each training file. Empty if a file cannot be read without its configuration.
std::vector<std::string> UnusedLabelTexts(const DataConfig& data);

}  // namespace simurgh
