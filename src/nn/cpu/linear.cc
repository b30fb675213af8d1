#include "nn/cpu/linear.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "nn/cpu/column_sums.h"
#include "nn/formulas.h"

namespace simurgh::cpu {

void BiasGradient(MatrixView<const float> output_gradient, std::span<float> bias_gradient) {
  SumAllColumns(
      output_gradient.rows(),
      [=](size_t row, size_t column) { return output_gradient(row, column); }, bias_gradient);
}

Status LinearForward(MatrixView<const float> input, MatrixView<const float> weight,
                     std::span<const float> bias, bool relu, MatrixView<float> output) {
  const auto add_bias = [=](MatrixView<float> piece, size_t /*row*/, size_t column) {
    const float* b = bias.data() + column;
    for (size_t row = 0; row < piece.rows(); ++row) {
      float* y = piece.row(row).data();
      if (relu) {
        for (size_t c = 0; c < piece.columns(); ++c) y[c] = ReluFormula::Value(y[c] + b[c]);
      } else {
        for (size_t c = 0; c < piece.columns(); ++c) y[c] += b[c];
      }
    }
  };
  return Multiply({input}, {weight}, input.columns(), 0.0F, output, add_bias);
}

Status LinearBackwardWeight(MatrixView<const float> input, MatrixView<const float> output_gradient,
                            MatrixView<float> weight_gradient, std::span<float> bias_gradient) {
  BiasGradient(output_gradient, bias_gradient);
  return Multiply({input, true}, {output_gradient}, input.rows(), 0.0F, weight_gradient);
}

Status LinearBackwardInput(MatrixView<const float> output_gradient, MatrixView<const float> weight,
                           float beta, MatrixView<float> input_gradient, PieceWork finish) {
  return Multiply({output_gradient}, {weight, true}, output_gradient.columns(), beta,
                  input_gradient, finish);
}

Status LinearBackwardRelu(MatrixView<const float> output_gradient, MatrixView<const float> weight,
                          MatrixView<const float> input, MatrixView<float> input_gradient,
                          float scale) {
  const auto backward = [&](auto formula) {
    const auto gate = [=](MatrixView<float> piece, size_t first, size_t column) {
      for (size_t row = 0; row < piece.rows(); ++row) {
        const float* x = input.row(first + row).data() + column;
        float* dx = piece.row(row).data();
        for (size_t c = 0; c < piece.columns(); ++c) dx[c] = formula.Gradient(x[c], dx[c]);
      }
    };
    return LinearBackwardInput(output_gradient, weight, 0.0F, input_gradient, gate);
  };
  return scale == 1.0F ? backward(ReluFormula()) : backward(DroppedReluFormula{scale});
}

}  // namespace simurgh::cpu
