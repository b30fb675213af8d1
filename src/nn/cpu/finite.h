#pragma once

#include <span>

namespace simurgh::cpu {

// Whether no value is NaN or infinite. Cost: one pass over memory on the compute threads.
bool AllFinite(std::span<const float> values);

}  // namespace simurgh::cpu
