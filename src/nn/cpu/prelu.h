#pragma once

#include <span>

#include "tensor/matrix_view.h"

// relu with a learned slope below 0, see PreluFormula. Matrices are (B, C), slopes (C). Outputs are
// overwritten.
namespace simurgh::cpu {

void PreluForward(MatrixView<const float> input, std::span<const float> slope,
                  MatrixView<float> output);
void PreluBackward(MatrixView<const float> input, std::span<const float> slope,
                   MatrixView<const float> output_gradient, MatrixView<float> input_gradient);
void PreluBackwardSlope(MatrixView<const float> input, MatrixView<const float> output_gradient,
                        std::span<float> slope_gradient);

}  // namespace simurgh::cpu
