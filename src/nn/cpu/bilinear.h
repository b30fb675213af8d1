#pragma once

#include "base/status.h"
#include "tensor/matrix_view.h"

// The bilinear fusion y = sum over heads h of x1_h W_h x2_h, where x1 and x2 are the halves of a
// sample's columns and x1_h is the h-th of equal pieces.
//
// B batch, C width of a half, D width of a piece. input, input_gradient: (B, 2 C). weight: (C, D),
// the W_h one above the other. product: (B, C), all x1_h W_h, which forward keeps for backward.
// Outputs are overwritten. Errors: INTERNAL when oneDNN fails.
// Source: Mao et al., "FinalMLP", AAAI 2023, equation 10.
namespace simurgh::cpu {

Status BilinearForward(MatrixView<const float> input, MatrixView<const float> weight,
                       MatrixView<float> product, MatrixView<float> output);

// product_gradient: kept for BilinearBackwardWeight.
Status BilinearBackward(MatrixView<const float> input, MatrixView<const float> weight,
                        MatrixView<const float> product, MatrixView<const float> output_gradient,
                        MatrixView<float> product_gradient, MatrixView<float> input_gradient);
Status BilinearBackwardWeight(MatrixView<const float> input,
                              MatrixView<const float> product_gradient,
                              MatrixView<float> weight_gradient);

}  // namespace simurgh::cpu
