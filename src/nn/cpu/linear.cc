#include "nn/cpu/linear.h"

#include <algorithm>

#include "nn/cpu/column_sum.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/matmul.h"

namespace simurgh::cpu {

void BiasGradient(MatrixView<const float> output_gradient, std::span<float> bias_gradient) {
  ForEachPart(bias_gradient.size(), MinRows(output_gradient.rows()), [=](size_t begin, size_t end) {
    for (size_t first = begin; first < end; first += kTileColumns) {
      const size_t columns = std::min(kTileColumns, end - first);
      const MatrixView<const float> tile = output_gradient.Columns(first, columns);
      double sums[kTileColumns];
      SumColumns(
          tile.rows(), columns, [=](size_t row, size_t column) { return tile(row, column); }, sums);
      for (size_t i = 0; i < columns; ++i) bias_gradient[first + i] = static_cast<float>(sums[i]);
    }
  });
}

Status LinearForward(MatrixView<const float> input, MatrixView<const float> weight,
                     std::span<const float> bias, MatrixView<float> output) {
  ForEachPart(output.rows(), MinRows(output.columns()), [=](size_t first, size_t end) {
    for (size_t row = first; row < end; ++row) std::ranges::copy(bias, output.row(row).begin());
  });
  return Multiply({input}, {weight}, input.columns(), 1.0F, output);
}

Status LinearBackwardWeight(MatrixView<const float> input, MatrixView<const float> output_gradient,
                            MatrixView<float> weight_gradient, std::span<float> bias_gradient) {
  BiasGradient(output_gradient, bias_gradient);
  return Multiply({input, true}, {output_gradient}, input.rows(), 0.0F, weight_gradient);
}

Status LinearBackwardInput(MatrixView<const float> output_gradient, MatrixView<const float> weight,
                           MatrixView<float> input_gradient) {
  return Multiply({output_gradient}, {weight, true}, output_gradient.columns(), 0.0F,
                  input_gradient);
}

}  // namespace simurgh::cpu
