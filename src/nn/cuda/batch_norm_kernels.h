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
  static constexpr size_t kPack = kSumPack<T>;

  Matrix<const T> input;
  const float* mean;

  bool Packs() const { return AllPack<kPack>(input); }

  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Of(size_t row, size_t column) const {
    const auto x = input.template Load<N>(row, column);
    Pack<float, N> squares;
    for (size_t k = 0; k < N; ++k) {
      const float distance = ToFloat(x[k]) - mean[column + k];
      squares[k] = distance * distance;
    }
    return squares;
  }
};

// The output gradient times the normalised input.
template <typename T>
struct ScaleGradientTerm {
  static constexpr size_t kPack = kSumPack<T>;

  Matrix<const T> input;
  Matrix<const T> output_gradient;
  const float* mean;
  const float* inverse;

  bool Packs() const { return AllPack<kPack>(input, output_gradient); }

  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Of(size_t row, size_t column) const {
    const auto x = input.template Load<N>(row, column);
    const auto dy = output_gradient.template Load<N>(row, column);
    Pack<float, N> products;
    for (size_t k = 0; k < N; ++k) {
      products[k] = ToFloat(dy[k]) * ((ToFloat(x[k]) - mean[column + k]) * inverse[column + k]);
    }
    return products;
  }
};

struct BatchNormParameters {
  const float* scale;
  const float* shift;
  const float* mean;
  const float* inverse;  // Inverse of the deviation.
};

// Computes the batch's variance and its inverse deviation. Called for each column.
struct FinishVariance {
  const double* sums;
  double samples;
  float epsilon;
  float* variance;
  float* inverse;

  SIMURGH_HOST_DEVICE void operator()(size_t column) const {
    variance[column] = static_cast<float>(sums[column] / samples);
    inverse[column] = InverseDeviation(variance[column], epsilon);
  }
};

// Computes the inverse deviation. Called for each column.
struct InvertDeviation {
  const float* variance;
  float epsilon;
  float* inverse;

  SIMURGH_HOST_DEVICE void operator()(size_t column) const {
    inverse[column] = InverseDeviation(variance[column], epsilon);
  }
};

template <typename T>
struct NormaliseCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  BatchNormParameters parameters;
  Matrix<T> output;

  bool Packs() const { return AllPack<kPack>(input, output); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto x = input.template Load<N>(row, column);
    Pack<T, N> y;
    for (size_t k = 0; k < N; ++k) {
      const size_t c = column + k;
      const float factor = parameters.scale[c] * parameters.inverse[c];
      const float distance = ToFloat(x[k]) - parameters.mean[c];
      Assign(y[k], distance * factor + parameters.shift[c]);
    }
    output.template Store<N>(row, column, y);
  }
};

// Computes the gradient of the input from the means over the batch, or over all ranks' batches, of
// dy and of dy * normalised:
// dx = scale / deviation * (dy - mean(dy) - normalised * mean(dy * normalised)).
template <typename T>
struct NormaliseBackwardCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  Matrix<const T> output_gradient;
  BatchNormParameters parameters;
  const float* means;             // (C)
  const float* normalised_means;  // (C)
  Matrix<T> input_gradient;

  bool Packs() const { return AllPack<kPack>(input, output_gradient, input_gradient); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto x = input.template Load<N>(row, column);
    const auto dy = output_gradient.template Load<N>(row, column);
    Pack<T, N> dx;
    for (size_t k = 0; k < N; ++k) {
      const size_t c = column + k;
      const float inverse = parameters.inverse[c];
      const float factor = parameters.scale[c] * inverse;
      const float slope = normalised_means[c] * inverse;
      const float distance = ToFloat(x[k]) - parameters.mean[c];
      Assign(dx[k], factor * (ToFloat(dy[k]) - means[c] - distance * slope));
    }
    input_gradient.template Store<N>(row, column, dx);
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
