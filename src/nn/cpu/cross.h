#pragma once

#include <span>

#include "base/status.h"
#include "tensor/matrix_view.h"

// The cross layer y = x0 * (x W + b) + x, where * is elementwise and x0 is the tower's input; or,
// with low rank, y = x0 * ((x V) U + b) + x.
//
// B batch, C columns, K rank. Errors: INTERNAL when oneDNN fails.
// Source: Wang et al., "DCN V2", WWW 2021, equations 1 and 2.
namespace simurgh::cpu {

// T: const float for the weights, float for their gradients.
template <typename T>
struct CrossParts {
  MatrixView<T> full;  // (C, C); empty with low rank.
  MatrixView<T> down;  // (C, K); down and up are empty in a full layer.
  MatrixView<T> up;    // (K, C)
  std::span<T> bias;   // (C)
};
using CrossWeights = CrossParts<const float>;
using CrossWeightGradients = CrossParts<float>;

// Products that forward keeps for backward.
struct CrossProducts {
  MatrixView<float> inner;  // (B, K): x V; empty in a full layer.
  MatrixView<float> outer;  // (B, C): the factor of x0.
};

// origin: x0. input: x. All (B, C). products, output: overwritten.
Status CrossForward(MatrixView<const float> origin, MatrixView<const float> input,
                    const CrossWeights& weights, const CrossProducts& products,
                    MatrixView<float> output);

// Computes the gradients of the products and of x0. product_gradients: overwritten.
// origin_gradient: (B, C), this layer's part, overwritten or added to.
Status CrossBackwardProducts(MatrixView<const float> origin, const CrossWeights& weights,
                             const CrossProducts& products, MatrixView<const float> output_gradient,
                             const CrossProducts& product_gradients, bool add_to_origin,
                             MatrixView<float> origin_gradient);

// Computes the gradient of x from those of the products. input_gradient: (B, C), overwritten.
Status CrossBackwardInput(const CrossWeights& weights, MatrixView<const float> output_gradient,
                          const CrossProducts& product_gradients, MatrixView<float> input_gradient);

// Computes the gradients of the weights from those of the products. weight_gradients: overwritten.
Status CrossBackwardWeights(MatrixView<const float> input, const CrossProducts& products,
                            const CrossProducts& product_gradients,
                            const CrossWeightGradients& weight_gradients);

}  // namespace simurgh::cpu
