#include "nn/cpu/dice.h"

#include "nn/cpu/column_sums.h"
#include "nn/cpu/compute_threads.h"
#include "nn/formulas.h"

namespace simurgh::cpu {

void DiceForward(MatrixView<const float> input, MatrixView<const float> normalised,
                 std::span<const float> slope, MatrixView<float> output) {
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    const float* x = input.row(r).data();
    const float* z = normalised.row(r).data();
    float* y = output.row(r).data();
    for (size_t c = 0; c < slope.size(); ++c) y[c] = DiceFormula::Value(x[c], z[c], slope[c]);
  });
}

Status DiceBackward(MatrixView<const float> input, MatrixView<const float> normalised,
                    std::span<const float> slope, float epsilon,
                    const BatchNormStatistics& statistics, const BatchNormGroup* group,
                    MatrixView<const float> output_gradient, MatrixView<float> normalised_gradient,
                    MatrixView<float> input_gradient) {
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    const float* x = input.row(r).data();
    const float* z = normalised.row(r).data();
    const float* dy = output_gradient.row(r).data();
    float* dz = normalised_gradient.row(r).data();
    for (size_t c = 0; c < slope.size(); ++c) {
      dz[c] = DiceFormula::NormalisedGradient(x[c], z[c], slope[c], dy[c]);
    }
  });
  SIMURGH_RETURN_IF_ERROR(BatchNormBackward(input, normalised_gradient, {}, epsilon, statistics,
                                            group, {}, {}, input_gradient));
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    const float* z = normalised.row(r).data();
    const float* dy = output_gradient.row(r).data();
    float* dx = input_gradient.row(r).data();
    for (size_t c = 0; c < slope.size(); ++c) {
      dx[c] += DiceFormula::Gradient(z[c], slope[c], dy[c]);
    }
  });
  return absl::OkStatus();
}

void DiceBackwardSlope(MatrixView<const float> input, MatrixView<const float> normalised,
                       MatrixView<const float> output_gradient, std::span<float> slope_gradient) {
  SumAllColumns(
      input.rows(),
      [=](size_t r, size_t c) {
        return DiceFormula::SlopeGradient(input(r, c), normalised(r, c), output_gradient(r, c));
      },
      slope_gradient);
}

}  // namespace simurgh::cpu
