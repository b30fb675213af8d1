#pragma once

#include <cstddef>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/formulas.h"

// Batch normalisation with the CPU backend's formulas and order of sums.
namespace simurgh::cuda {

template <typename T>
struct SquaredDistanceTerm {
  Matrix<const T> input;
  const float* mean;

  SIMURGH_HOST_DEVICE float operator()(size_t row, size_t column) const {
    const float distance = ToFloat(input(row, column)) - mean[column];
    return distance * distance;
  }
};

// The output gradient times the normalised input.
template <typename T>
struct ScaleGradientTerm {
  Matrix<const T> input;
  Matrix<const T> output_gradient;
  const float* mean;
  const float* variance;
  float epsilon;

  SIMURGH_HOST_DEVICE float operator()(size_t row, size_t column) const {
    const float inverse = InverseDeviation(variance[column], epsilon);
    return ToFloat(output_gradient(row, column)) *
           ((ToFloat(input(row, column)) - mean[column]) * inverse);
  }
};

struct BatchNormParameters {
  const float* scale;
  const float* shift;
  const float* mean;
  const float* variance;
  float epsilon;
};

template <typename T>
struct NormaliseCell {
  Matrix<const T> input;
  BatchNormParameters parameters;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const float inverse = InverseDeviation(parameters.variance[column], parameters.epsilon);
    const float factor = parameters.scale[column] * inverse;
    const float distance = ToFloat(input(row, column)) - parameters.mean[column];
    Assign(output(row, column), distance * factor + parameters.shift[column]);
  }
};

// With the sums over the batch, or over all ranks' batches, of dy and of dy * normalised:
// dx = scale / deviation * (dy - mean(dy) - normalised * mean(dy * normalised)).
template <typename T>
struct NormaliseBackwardCell {
  Matrix<const T> input;
  Matrix<const T> output_gradient;
  BatchNormParameters parameters;
  const double* sums;             // (C)
  const double* normalised_sums;  // (C)
  double samples;                 // In the sums.
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const float inverse = InverseDeviation(parameters.variance[column], parameters.epsilon);
    const float factor = parameters.scale[column] * inverse;
    const float slope = static_cast<float>(normalised_sums[column] / samples) * inverse;
    const float offset = static_cast<float>(sums[column] / samples);
    const float distance = ToFloat(input(row, column)) - parameters.mean[column];
    Assign(input_gradient(row, column),
           factor * (ToFloat(output_gradient(row, column)) - offset - distance * slope));
  }
};

// unbias: on the device, as it depends on the batch's size. Called for each column.
struct UpdateRunningStatistics {
  float momentum;
  const float* unbias;
  const float* batch_mean;
  const float* batch_variance;
  float* running_mean;
  float* running_variance;

  SIMURGH_HOST_DEVICE void operator()(size_t column) const {
    const float keep = 1.0F - momentum;
    running_mean[column] = keep * running_mean[column] + momentum * batch_mean[column];
    running_variance[column] =
        keep * running_variance[column] + momentum * (batch_variance[column] * *unbias);
  }
};

}  // namespace simurgh::cuda
