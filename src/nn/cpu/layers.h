#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "config/model_config.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/matmul.h"
#include "nn/formulas.h"
#include "tensor/matrix_view.h"

// Elementwise layers. All spans of one call have one length; outputs are overwritten.
namespace simurgh::cpu {

template <typename Formula>
void ActivationForward(std::span<const float> input, std::span<float> output) {
  ForEachPart(input.size(), kPartElements, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) output[i] = Formula::Value(input[i]);
  });
}

// saved: see formulas.h.
template <typename Formula>
void ActivationBackward(std::span<const float> saved, std::span<const float> output_gradient,
                        std::span<float> input_gradient) {
  ForEachPart(saved.size(), kPartElements, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      input_gradient[i] = Formula::Gradient(saved[i], output_gradient[i]);
    }
  });
}

// Columns per tile in reductions over the batch: a thousand rows of a tile fit into the L2 cache.
inline constexpr size_t kTileColumns = 64;

// sums[c] = the sum of term(r, c) over all rows. Sums in f32 within blocks of rows and in f64
// between blocks: nearly as fast as f32, and the error does not grow with the batch. The order
// depends only on the number of rows. columns: at most kTileColumns.
template <typename Term>
void SumColumns(size_t rows, size_t columns, const Term& term, double* sums) {
  constexpr size_t kBlockRows = 64;
  std::fill_n(sums, columns, 0.0);
  for (size_t begin = 0; begin < rows; begin += kBlockRows) {
    const size_t end = std::min(rows, begin + kBlockRows);
    float partial[kTileColumns] = {};
    for (size_t row = begin; row < end; ++row) {
      for (size_t column = 0; column < columns; ++column) partial[column] += term(row, column);
    }
    for (size_t column = 0; column < columns; ++column) {
      sums[column] += static_cast<double>(partial[column]);
    }
  }
}

}  // namespace simurgh::cpu

// y = x W + b by oneDNN's sgemm, which takes plain row-major weights and needs no primitive per
// batch size.
//
// B batch, I inputs, O outputs. Errors: INTERNAL when oneDNN fails.
namespace simurgh::cpu {

// input: (B, I). weight: (I, O). bias: (O). output: (B, O), overwritten; with relu, it is that of a
// relu after the layer.
Status LinearForward(MatrixView<const float> input, MatrixView<const float> weight,
                     std::span<const float> bias, bool relu, MatrixView<float> output);

// weight_gradient: (I, O), bias_gradient: (O); overwritten with the sum over the batch.
Status LinearBackwardWeight(MatrixView<const float> input, MatrixView<const float> output_gradient,
                            MatrixView<float> weight_gradient, std::span<float> bias_gradient);

// bias_gradient: (O), overwritten with the sum over the batch.
void BiasGradient(MatrixView<const float> output_gradient, std::span<float> bias_gradient);

// input_gradient: (B, I), overwritten, or with beta = 1 added to. finish: see Multiply.
Status LinearBackwardInput(MatrixView<const float> output_gradient, MatrixView<const float> weight,
                           float beta, MatrixView<float> input_gradient,
                           PieceWork finish = NoPieceWork);

// As LinearBackwardInput, for an input (B, I) that is the output of a relu: input_gradient is that
// of the relu's input.
Status LinearBackwardRelu(MatrixView<const float> output_gradient, MatrixView<const float> weight,
                          MatrixView<const float> input, MatrixView<float> input_gradient);

}  // namespace simurgh::cpu

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

// Gradients of the weights and of x0. product_gradients, weight_gradients: overwritten.
// origin_gradient: (B, C), this layer's part, overwritten or added to.
Status CrossBackwardWeights(MatrixView<const float> origin, MatrixView<const float> input,
                            const CrossWeights& weights, const CrossProducts& products,
                            MatrixView<const float> output_gradient,
                            const CrossProducts& product_gradients,
                            const CrossWeightGradients& weight_gradients, bool add_to_origin,
                            MatrixView<float> origin_gradient);

// Gradient of x, from the product gradients of CrossBackwardWeights. input_gradient: (B, C),
// overwritten.
Status CrossBackwardInput(const CrossWeights& weights, MatrixView<const float> output_gradient,
                          const CrossProducts& product_gradients, MatrixView<float> input_gradient);

}  // namespace simurgh::cpu

// Batch normalisation of (B, C) matrices. oneDNN's version is about ten times slower on plain
// (B, C) memory unless C is a multiple of 16.
//
// Source: Ioffe and Szegedy, "Batch Normalization", ICML 2015; statistics as torch.nn.BatchNorm1d
// keeps them. Threads: any; the result does not depend on their number.
namespace simurgh::cpu {

// All of length C.
struct BatchNormAffine {
  std::span<const float> scale;
  std::span<const float> shift;
};

// output = (input - mean) / sqrt(variance + epsilon) * scale + shift, with the batch's mean and
// biased variance, which are overwritten. input, output: (B, C).
void BatchNormForward(MatrixView<const float> input, const BatchNormAffine& affine, float epsilon,
                      std::span<float> mean, std::span<float> variance, MatrixView<float> output);

// The same with given statistics.
void BatchNormPredict(MatrixView<const float> input, const BatchNormAffine& affine, float epsilon,
                      std::span<const float> mean, std::span<const float> variance,
                      MatrixView<float> output);

// Ranks that share their batch statistics.
struct BatchNormGroup {
  uint64_t samples = 0;                                        // Over all ranks.
  const std::function<Status(std::span<double> values)>& sum;  // Sums values over all ranks.
};

// As BatchNormForward with mean and variance of the group's batch. B may be 0.
// Errors: those of group.sum. Cost: two sums of C values over the ranks.
Status SyncBatchNormForward(MatrixView<const float> input, const BatchNormAffine& affine,
                            float epsilon, const BatchNormGroup& group, std::span<float> mean,
                            std::span<float> variance, MatrixView<float> output);

// All of length C.
struct BatchNormStatistics {
  std::span<const float> mean;
  std::span<const float> variance;
};

// statistics and group: those of the forward pass; group may be null. scale_gradient,
// shift_gradient: (C), overwritten with the sums over this rank's batch. input_gradient: (B, C),
// overwritten. Errors: those of group->sum. Cost: with a group, a sum of 2 C values over the ranks.
Status BatchNormBackward(MatrixView<const float> input, MatrixView<const float> output_gradient,
                         std::span<const float> scale, float epsilon,
                         const BatchNormStatistics& statistics, const BatchNormGroup* group,
                         std::span<float> scale_gradient, std::span<float> shift_gradient,
                         MatrixView<float> input_gradient);

// running = (1 - momentum) * running + momentum * batch, with the unbiased variance of the batch
// (biased if the batch has one row).
void BatchNormUpdateRunning(size_t batch_rows, float momentum, std::span<const float> batch_mean,
                            std::span<const float> batch_variance, std::span<float> running_mean,
                            std::span<float> running_variance);

}  // namespace simurgh::cpu

// T tasks; outputs, labels, predictions and gradient are (B, T), row-major. Outputs are those of
// the last layer: logits of binary labels.
namespace simurgh::cpu {

// The mean over samples of the tasks' weighted losses; see LossConfig. bce and focal are computed
// from log(1 + exp(-|z|)), so no logit overflows.
//
// labels: see LossConfig; then, if the samples have weights, the factors (B) of their losses.
// predictions: overwritten. gradient: overwritten with the derivative of the summed loss by output,
// divided by gradient_divisor.
double Loss(std::span<const TaskConfig> tasks, std::span<const float> outputs,
            std::span<const float> labels, std::span<float> predictions, uint64_t gradient_divisor,
            std::span<float> gradient);

}  // namespace simurgh::cpu
