#pragma once

#include "tensor/matrix_view.h"

// Divides each sample by its Euclidean norm, see L2NormFormula. Matrices are (B, C). Outputs are
// overwritten.
namespace simurgh::cpu {

void L2NormForward(MatrixView<const float> input, MatrixView<float> output);
void L2NormBackward(MatrixView<const float> input, MatrixView<const float> output_gradient,
                    MatrixView<float> input_gradient);

}  // namespace simurgh::cpu
