#pragma once

#include <span>

#include "simurgh/base/status.h"
#include "simurgh/tensor/matrix_view.h"

// y = x W + b by oneDNN's sgemm, which takes plain row-major weights and needs no primitive per
// batch size.
//
// B batch, I inputs, O outputs. Errors: INTERNAL when oneDNN fails.
namespace simurgh::cpu {

// input: (B, I). weight: (I, O). bias: (O). output: (B, O), overwritten.
Status LinearForward(MatrixView<const float> input, MatrixView<const float> weight,
                     std::span<const float> bias, MatrixView<float> output);

// weight_gradient: (I, O), bias_gradient: (O); overwritten with the sum over the batch.
Status LinearBackwardWeight(MatrixView<const float> input, MatrixView<const float> output_gradient,
                            MatrixView<float> weight_gradient, std::span<float> bias_gradient);

// bias_gradient: (O), overwritten with the sum over the batch.
void BiasGradient(MatrixView<const float> output_gradient, std::span<float> bias_gradient);

// input_gradient: (B, I), overwritten.
Status LinearBackwardInput(MatrixView<const float> output_gradient, MatrixView<const float> weight,
                           MatrixView<float> input_gradient);

}  // namespace simurgh::cpu
