#pragma once

#include <span>

#include "base/status.h"
#include "nn/cpu/batch_norm.h"
#include "tensor/matrix_view.h"

// An activation whose slope changes around the mean of a column, see DiceFormula. Matrices are
// (B, C), slopes (C). Outputs are overwritten. normalised: the input, normalised by BatchNorm*
// without an affine part.
namespace simurgh::cpu {

void DiceForward(MatrixView<const float> input, MatrixView<const float> normalised,
                 std::span<const float> slope, MatrixView<float> output);

// normalised_gradient: scratch memory. Other parameters, errors and cost: see BatchNormBackward.
Status DiceBackward(MatrixView<const float> input, MatrixView<const float> normalised,
                    std::span<const float> slope, float epsilon,
                    const BatchNormStatistics& statistics, const BatchNormGroup* group,
                    MatrixView<const float> output_gradient, MatrixView<float> normalised_gradient,
                    MatrixView<float> input_gradient);

void DiceBackwardSlope(MatrixView<const float> input, MatrixView<const float> normalised,
                       MatrixView<const float> output_gradient, std::span<float> slope_gradient);

}  // namespace simurgh::cpu
