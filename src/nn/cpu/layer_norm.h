#pragma once

#include <span>

#include "tensor/matrix_view.h"

// Normalises the columns of each sample, then applies a scale and a shift. Matrices are (B, C),
// scale and shift (C). Outputs are overwritten.
//
// Source: Ba et al., "Layer Normalization", 2016, equation 4.
namespace simurgh::cpu {

// statistics: (B, 2), mean and inverse deviation of each sample, overwritten.
void LayerNormForward(MatrixView<const float> input, std::span<const float> scale,
                      std::span<const float> shift, float epsilon, MatrixView<float> statistics,
                      MatrixView<float> output);

// statistics: those of the forward pass.
void LayerNormBackward(MatrixView<const float> input, std::span<const float> scale,
                       MatrixView<const float> statistics, MatrixView<const float> output_gradient,
                       MatrixView<float> input_gradient);
void LayerNormBackwardWeights(MatrixView<const float> input, MatrixView<const float> statistics,
                              MatrixView<const float> output_gradient,
                              std::span<float> scale_gradient, std::span<float> shift_gradient);

}  // namespace simurgh::cpu
