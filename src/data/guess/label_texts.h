#pragma once

#include <string>
#include <vector>

#include "config/data_config.h"

namespace simurgh {

// Returns a warning for each text of a label's `positive` and `negative` that is in none of the
// first 200,000 rows of each training file; none if a file cannot be read without its
// configuration.
std::vector<std::string> UnusedLabelTexts(const DataConfig& data);

}  // namespace simurgh
