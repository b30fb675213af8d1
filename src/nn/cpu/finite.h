#pragma once

#include <span>

#include "simurgh/tensor/matrix_view.h"

namespace simurgh::cpu {

// Whether no value is NaN or infinite. Cost: one pass over memory on the compute threads.
bool AllFinite(std::span<const float> values);
bool AllRowsFinite(MatrixView<const float> values);

}  // namespace simurgh::cpu
