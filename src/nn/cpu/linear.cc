#include "nn/cpu/linear.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "nn/cpu/column_sums.h"
#include "nn/cpu/compute_threads.h"
#include "nn/formulas.h"

namespace simurgh::cpu {

void BiasGradient(MatrixView<const float> output_gradient, std::span<float> bias_gradient) {
  // Parts that stay in the cache. The order of sums depends only on the number of rows.
  constexpr size_t kPartRows = 256;
  const size_t rows = output_gradient.rows();
  const size_t columns = bias_gradient.size();
  const size_t parts = (rows + kPartRows - 1) / kPartRows;
  std::vector<double> sums_of_parts(parts * columns);
  const auto sum_part = [&](size_t part) {
    const MatrixView<const float> x =
        output_gradient.Rows(part * kPartRows, std::min(kPartRows, rows - part * kPartRows));
    for (size_t first = 0; first < columns; first += kTileColumns) {
      const size_t width = std::min(kTileColumns, columns - first);
      SumColumns(
          x.rows(), width, [=](size_t row, size_t column) { return x(row, first + column); },
          sums_of_parts.data() + part * columns + first);
    }
  };
  if (rows * columns < kPartElements) {
    for (size_t part = 0; part < parts; ++part) sum_part(part);
  } else {
    RunParts(parts, sum_part);
  }
  for (size_t column = 0; column < columns; ++column) {
    double sum = 0;
    for (size_t part = 0; part < parts; ++part) sum += sums_of_parts[part * columns + column];
    bias_gradient[column] = static_cast<float>(sum);
  }
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
  const auto gate = [=](MatrixView<float> piece, size_t first, size_t column) {
    for (size_t row = 0; row < piece.rows(); ++row) {
      const float* x = input.row(first + row).data() + column;
      float* dx = piece.row(row).data();
      for (size_t c = 0; c < piece.columns(); ++c) {
        dx[c] = ReluFormula::Gradient(x[c], dx[c] * scale);
      }
    }
  };
  return LinearBackwardInput(output_gradient, weight, 0.0F, input_gradient, gate);
}

}  // namespace simurgh::cpu
