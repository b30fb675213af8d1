#include "nn/cpu/prelu.h"

#include "nn/cpu/column_sums.h"
#include "nn/cpu/compute_threads.h"
#include "nn/formulas.h"

namespace simurgh::cpu {

void PreluForward(MatrixView<const float> input, std::span<const float> slope,
                  MatrixView<float> output) {
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    const float* x = input.row(r).data();
    float* y = output.row(r).data();
    for (size_t c = 0; c < slope.size(); ++c) y[c] = PreluFormula::Value(x[c], slope[c]);
  });
}

void PreluBackward(MatrixView<const float> input, std::span<const float> slope,
                   MatrixView<const float> output_gradient, MatrixView<float> input_gradient) {
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    const float* x = input.row(r).data();
    const float* dy = output_gradient.row(r).data();
    float* dx = input_gradient.row(r).data();
    for (size_t c = 0; c < slope.size(); ++c) {
      dx[c] = PreluFormula::Gradient(x[c], slope[c], dy[c]);
    }
  });
}

void PreluBackwardSlope(MatrixView<const float> input, MatrixView<const float> output_gradient,
                        std::span<float> slope_gradient) {
  SumAllColumns(
      input.rows(),
      [=](size_t r, size_t c) {
        return PreluFormula::SlopeGradient(input(r, c), output_gradient(r, c));
      },
      slope_gradient);
}

}  // namespace simurgh::cpu
