#include "nn/cpu/cross.h"

#include <algorithm>
#include <cstddef>

#include "nn/cpu/linear.h"
#include "nn/cpu/matmul.h"

namespace simurgh::cpu {
namespace {

template <typename T>
bool IsFull(const CrossParts<T>& weights) {
  return weights.down.columns() == 0;
}

}  // namespace

Status CrossForward(MatrixView<const float> origin, MatrixView<const float> input,
                    const CrossWeights& weights, const CrossProducts& products,
                    MatrixView<float> output) {
  if (IsFull(weights)) {
    SIMURGH_RETURN_IF_ERROR(
        LinearForward(input, weights.full, weights.bias, /*relu=*/false, products.outer));
  } else {
    SIMURGH_RETURN_IF_ERROR(
        Multiply({input}, {weights.down}, input.columns(), 0.0F, products.inner));
    SIMURGH_RETURN_IF_ERROR(
        LinearForward(products.inner, weights.up, weights.bias, /*relu=*/false, products.outer));
  }
  for (size_t row = 0; row < output.rows(); ++row) {
    const float* x0 = origin.row(row).data();
    const float* x = input.row(row).data();
    const float* u = products.outer.row(row).data();
    float* y = output.row(row).data();
    for (size_t c = 0; c < output.columns(); ++c) y[c] = x0[c] * u[c] + x[c];
  }
  return absl::OkStatus();
}

Status CrossBackwardProducts(MatrixView<const float> origin, const CrossWeights& weights,
                             const CrossProducts& products, MatrixView<const float> output_gradient,
                             const CrossProducts& product_gradients, bool add_to_origin,
                             MatrixView<float> origin_gradient) {
  for (size_t row = 0; row < origin.rows(); ++row) {
    if (!add_to_origin) std::ranges::fill(origin_gradient.row(row), 0.0F);
    const float* x0 = origin.row(row).data();
    const float* u = products.outer.row(row).data();
    const float* dy = output_gradient.row(row).data();
    float* du = product_gradients.outer.row(row).data();
    float* dx0 = origin_gradient.row(row).data();
    for (size_t c = 0; c < origin.columns(); ++c) {
      du[c] = dy[c] * x0[c];
      dx0[c] += dy[c] * u[c];
    }
  }
  if (IsFull(weights)) return absl::OkStatus();
  return LinearBackwardInput(product_gradients.outer, weights.up, 0.0F, product_gradients.inner);
}

Status CrossBackwardInput(const CrossWeights& weights, MatrixView<const float> output_gradient,
                          const CrossProducts& product_gradients,
                          MatrixView<float> input_gradient) {
  for (size_t row = 0; row < input_gradient.rows(); ++row) {
    std::ranges::copy(output_gradient.row(row), input_gradient.row(row).begin());
  }
  const bool full = IsFull(weights);
  const MatrixView<const float> gradient = full ? product_gradients.outer : product_gradients.inner;
  return Multiply({gradient}, {full ? weights.full : weights.down, true}, gradient.columns(), 1.0F,
                  input_gradient);
}

Status CrossBackwardWeights(MatrixView<const float> input, const CrossProducts& products,
                            const CrossProducts& product_gradients,
                            const CrossWeightGradients& weight_gradients) {
  if (IsFull(weight_gradients)) {
    return LinearBackwardWeight(input, product_gradients.outer, weight_gradients.full,
                                weight_gradients.bias);
  }
  SIMURGH_RETURN_IF_ERROR(LinearBackwardWeight(products.inner, product_gradients.outer,
                                               weight_gradients.up, weight_gradients.bias));
  return Multiply({input, true}, {product_gradients.inner}, input.rows(), 0.0F,
                  weight_gradients.down);
}

}  // namespace simurgh::cpu
