#pragma once

#include <span>

namespace simurgh::cpu {

// Whether no value is NaN or infinite. At the speed of memory.
bool AllFinite(std::span<const float> values);

}  // namespace simurgh::cpu
