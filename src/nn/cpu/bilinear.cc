#include "nn/cpu/bilinear.h"

#include "nn/cpu/compute_threads.h"
#include "nn/cpu/matmul.h"

namespace simurgh::cpu {
namespace {

// Calls product(first, count) for the columns of each head until one fails.
template <typename Product>
Status ForEachHead(MatrixView<const float> weight, const Product& product) {
  for (size_t first = 0; first < weight.rows(); first += weight.columns()) {
    SIMURGH_RETURN_IF_ERROR(product(first, weight.columns()));
  }
  return absl::OkStatus();
}

}  // namespace

Status BilinearForward(MatrixView<const float> input, MatrixView<const float> weight,
                       MatrixView<float> product, MatrixView<float> output) {
  SIMURGH_RETURN_IF_ERROR(ForEachHead(weight, [&](size_t first, size_t count) {
    return Multiply({input.Columns(first, count)}, {weight.Rows(first, count)}, count, 0.0F,
                    product.Columns(first, count));
  }));
  const size_t half = weight.rows();
  ForEachRow(input.rows(), half, [=](size_t r) {
    const float* u = product.row(r).data();
    const float* x2 = input.row(r).data() + half;
    float sum = 0.0F;
    for (size_t c = 0; c < half; ++c) sum += u[c] * x2[c];
    output(r, 0) = sum;
  });
  return absl::OkStatus();
}

Status BilinearBackward(MatrixView<const float> input, MatrixView<const float> weight,
                        MatrixView<const float> product, MatrixView<const float> output_gradient,
                        MatrixView<float> product_gradient, MatrixView<float> input_gradient) {
  const size_t half = weight.rows();
  ForEachRow(input.rows(), half, [=](size_t r) {
    const float dy = output_gradient(r, 0);
    const float* u = product.row(r).data();
    const float* x2 = input.row(r).data() + half;
    float* du = product_gradient.row(r).data();
    float* dx2 = input_gradient.row(r).data() + half;
    for (size_t c = 0; c < half; ++c) du[c] = dy * x2[c];
    for (size_t c = 0; c < half; ++c) dx2[c] = dy * u[c];
  });
  return ForEachHead(weight, [&](size_t first, size_t count) {
    return Multiply({product_gradient.Columns(first, count)}, {weight.Rows(first, count), true},
                    count, 0.0F, input_gradient.Columns(first, count));
  });
}

Status BilinearBackwardWeight(MatrixView<const float> input,
                              MatrixView<const float> product_gradient,
                              MatrixView<float> weight_gradient) {
  return ForEachHead(weight_gradient, [&](size_t first, size_t count) {
    return Multiply({input.Columns(first, count), true}, {product_gradient.Columns(first, count)},
                    input.rows(), 0.0F, weight_gradient.Rows(first, count));
  });
}

}  // namespace simurgh::cpu
