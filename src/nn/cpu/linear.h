#pragma once

#include <span>

#include "base/status.h"
#include "nn/cpu/matmul.h"
#include "tensor/matrix_view.h"

// y = x W + b by oneDNN's sgemm, which takes plain row-major weights and needs no primitive per
// batch size.
//
// B batch, I inputs, O outputs. Errors: INTERNAL when oneDNN fails.
namespace simurgh::cpu {

// input: (B, I). weight: (I, O). bias: (O). output: (B, O), overwritten; with relu, it is that of a
// relu after the layer.
Status LinearForward(MatrixView<const float> input, MatrixView<const float> weight,
                     std::span<const float> bias, bool relu, MatrixView<float> output);

// weight_gradient: (I, O), bias_gradient: (O); overwritten with the sum over the batch.
Status LinearBackwardWeight(MatrixView<const float> input, MatrixView<const float> output_gradient,
                            MatrixView<float> weight_gradient, std::span<float> bias_gradient);

// bias_gradient: (O), overwritten with the sum over the batch.
void BiasGradient(MatrixView<const float> output_gradient, std::span<float> bias_gradient);

// input_gradient: (B, I), overwritten, or with beta = 1 added to. finish: see Multiply.
Status LinearBackwardInput(MatrixView<const float> output_gradient, MatrixView<const float> weight,
                           float beta, MatrixView<float> input_gradient,
                           PieceWork finish = NoPieceWork);

// Computes LinearBackwardInput through a relu: input (B, I) is the relu's output, and
// input_gradient is the gradient of the relu's input. scale: that of a dropout behind the relu,
// whose output is `input`; else 1.
Status LinearBackwardRelu(MatrixView<const float> output_gradient, MatrixView<const float> weight,
                          MatrixView<const float> input, MatrixView<float> input_gradient,
                          float scale = 1.0F);

}  // namespace simurgh::cpu
