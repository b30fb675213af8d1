#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "tensor/matrix_view.h"

// Batch normalisation of (B, C) matrices. oneDNN's version is about ten times slower on plain
// (B, C) memory unless C is a multiple of 16.
//
// Source: Ioffe and Szegedy, "Batch Normalization", ICML 2015; statistics as torch.nn.BatchNorm1d
// keeps them. Threads: any; the result does not depend on their number.
namespace simurgh::cpu {

// Spans of length C; without values, scale is 1 and shift is 0.
struct BatchNormAffine {
  std::span<const float> scale = {};
  std::span<const float> shift = {};
};

// output = (input - mean) / sqrt(variance + epsilon) * scale + shift, with the batch's mean and
// biased variance, which are overwritten. input, output: (B, C).
void BatchNormForward(MatrixView<const float> input, const BatchNormAffine& affine, float epsilon,
                      std::span<float> mean, std::span<float> variance, MatrixView<float> output);

// Computes the same output with given statistics.
void BatchNormPredict(MatrixView<const float> input, const BatchNormAffine& affine, float epsilon,
                      std::span<const float> mean, std::span<const float> variance,
                      MatrixView<float> output);

// Ranks that share their batch statistics.
struct BatchNormGroup {
  uint64_t samples = 0;                                        // Number over all ranks.
  const std::function<Status(std::span<double> values)>& sum;  // Sums values over all ranks.
};

// Computes BatchNormForward with mean and variance of the group's batch, which are 0 without
// samples. B may be 0.
// Errors: those of group.sum. Cost: two sums of C values over the ranks.
Status SyncBatchNormForward(MatrixView<const float> input, const BatchNormAffine& affine,
                            float epsilon, const BatchNormGroup& group, std::span<float> mean,
                            std::span<float> variance, MatrixView<float> output);

// Spans of length C.
struct BatchNormStatistics {
  std::span<const float> mean;
  std::span<const float> variance;
};

// statistics and group: those of the forward pass; group may be null. scale_gradient,
// shift_gradient: (C), overwritten with the sums over this rank's batch; empty without an affine
// part, and then so is scale. input_gradient: (B, C), overwritten. Errors: those of group->sum.
// Cost: with a group, a sum of 2 C values over the ranks.
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
