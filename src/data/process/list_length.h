#pragma once

#include <cstdint>
#include <vector>

#include "simurgh/config/feature_config.h"

namespace simurgh {

// Cuts a list to config.max_length and, if config.pad says so, fills it up with `padding` at its
// end. Does nothing where max_length is 0.
void FitLength(const ProcessingConfig& config, uint64_t padding, std::vector<uint64_t>& ids);
// The same for the weights of such ids.
void FitLength(const ProcessingConfig& config, float padding, std::vector<float>& weights);

}  // namespace simurgh
