#include "nn/cpu/linear.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include <dnnl.hpp>

#include "nn/cpu/column_sum.h"

namespace simurgh::cpu {
namespace {

struct Operand {
  MatrixView<const float> matrix;
  bool transposed = false;
};

// c = a b + beta c. rows, columns: of c. depth: columns of a (as transposed).
Status Multiply(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c) {
  const auto dim = [](size_t n) { return static_cast<dnnl_dim_t>(n); };
  const dnnl::status status =
      dnnl::sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(c.rows()),
                  dim(c.columns()), dim(depth), 1.0F, a.matrix.data(), dim(a.matrix.stride()),
                  b.matrix.data(), dim(b.matrix.stride()), beta, c.data(), dim(c.stride()));
  if (status == dnnl::status::success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN sgemm (", c.rows(), " x ", depth, ") times (",
                                          depth, " x ", c.columns(), ") failed with status ",
                                          static_cast<int>(status)));
}

}  // namespace

Status LinearForward(MatrixView<const float> input, MatrixView<const float> weight,
                     std::span<const float> bias, MatrixView<float> output) {
  for (size_t row = 0; row < output.rows(); ++row) {
    std::ranges::copy(bias, output.row(row).begin());
  }
  return Multiply({input}, {weight}, input.columns(), 1.0F, output);
}

Status LinearBackwardWeight(MatrixView<const float> input, MatrixView<const float> output_gradient,
                            MatrixView<float> weight_gradient, std::span<float> bias_gradient) {
  for (size_t first = 0; first < bias_gradient.size(); first += kTileColumns) {
    const size_t columns = std::min(kTileColumns, bias_gradient.size() - first);
    const MatrixView<const float> tile = output_gradient.Columns(first, columns);
    double sums[kTileColumns];
    SumColumns(
        tile.rows(), columns, [=](size_t row, size_t column) { return tile(row, column); }, sums);
    for (size_t i = 0; i < columns; ++i) bias_gradient[first + i] = static_cast<float>(sums[i]);
  }
  return Multiply({input, true}, {output_gradient}, input.rows(), 0.0F, weight_gradient);
}

Status LinearBackwardInput(MatrixView<const float> output_gradient, MatrixView<const float> weight,
                           MatrixView<float> input_gradient) {
  return Multiply({output_gradient}, {weight, true}, output_gradient.columns(), 0.0F,
                  input_gradient);
}

}  // namespace simurgh::cpu
