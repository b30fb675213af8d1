#pragma once

#include "nn/dropout.h"
#include "tensor/matrix_view.h"

namespace simurgh::cpu {

// Multiplies each value by its factor: the layer, forward and backward. to: overwritten; may be
// `from`. NaN stays NaN.
void Drop(const DropoutMask& mask, MatrixView<const float> from, MatrixView<float> to);

}  // namespace simurgh::cpu
