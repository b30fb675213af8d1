#pragma once

#include <cstddef>

#include "tensor/matrix_view.h"

// Layers of K equal pieces of a sample's columns, each D wide. input, input_gradient: (B, K * D).
// output: (B, D). Outputs are overwritten.
namespace simurgh::cpu {

// Computes the product of the pieces, element by element. Cost: backward, K^2 products of pieces.
void ProductForward(MatrixView<const float> input, MatrixView<float> output);
void ProductBackward(MatrixView<const float> input, MatrixView<const float> output_gradient,
                     MatrixView<float> input_gradient);

// Computes the logit of the product of the probabilities whose logits the pieces are, see
// JointFormula.
void JointForward(MatrixView<const float> input, MatrixView<float> output);
void JointBackward(MatrixView<const float> input, MatrixView<const float> output_gradient,
                   MatrixView<float> input_gradient);

}  // namespace simurgh::cpu
