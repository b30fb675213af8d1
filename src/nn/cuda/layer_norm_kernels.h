#pragma once

#include <cstddef>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/formulas.h"

// Layer normalisation, see nn/cpu/layer_norm.h. Values of a row are in a matrix (B, 4): mean,
// inverse deviation, and for the backward pass the means of dy * scale and of that times the
// normalised input.
namespace simurgh::cuda {

enum LayerNormColumn : size_t { kRowMean, kRowInverse, kRowOffset, kRowSlope, kLayerNormColumns };

// Kernels of ForEachSum, for each row.

template <typename T>
struct RowMean {
  Matrix<const T> input;
  Matrix<float> rows;

  SIMURGH_HOST_DEVICE float Lane(size_t row, size_t lane) const {
    float sum = 0.0F;
    for (size_t c = lane; c < input.columns; c += kSumLanes) sum += ToFloat(input(row, c));
    return sum;
  }
  SIMURGH_HOST_DEVICE void Finish(size_t row, float sum) const {
    rows(row, kRowMean) = sum / static_cast<float>(input.columns);
  }
};

template <typename T>
struct RowDeviation {
  Matrix<const T> input;
  float epsilon;
  Matrix<float> rows;

  SIMURGH_HOST_DEVICE float Lane(size_t row, size_t lane) const {
    const float mean = rows(row, kRowMean);
    float sum = 0.0F;
    for (size_t c = lane; c < input.columns; c += kSumLanes) {
      const float distance = ToFloat(input(row, c)) - mean;
      sum += distance * distance;
    }
    return sum;
  }
  SIMURGH_HOST_DEVICE void Finish(size_t row, float sum) const {
    rows(row, kRowInverse) = InverseDeviation(sum / static_cast<float>(input.columns), epsilon);
  }
};

// Computes one of the two means of the backward pass.
template <typename T, LayerNormColumn kColumn>
struct RowGradientMean {
  Matrix<const T> input;
  Matrix<const T> output_gradient;
  const float* scale;
  Matrix<float> rows;

  SIMURGH_HOST_DEVICE float Lane(size_t row, size_t lane) const {
    const float mean = rows(row, kRowMean);
    const float inverse = rows(row, kRowInverse);
    float sum = 0.0F;
    for (size_t c = lane; c < input.columns; c += kSumLanes) {
      const float gradient = ToFloat(output_gradient(row, c)) * scale[c];
      sum +=
          kColumn == kRowOffset ? gradient : gradient * ((ToFloat(input(row, c)) - mean) * inverse);
    }
    return sum;
  }
  SIMURGH_HOST_DEVICE void Finish(size_t row, float sum) const {
    rows(row, kColumn) = sum / static_cast<float>(input.columns);
  }
};

// Functions of map_kernels.h.

struct LayerNormValue {
  Matrix<const float> rows;
  const float* scale;
  const float* shift;

  SIMURGH_HOST_DEVICE float operator()(size_t row, size_t c, float x) const {
    return (x - rows(row, kRowMean)) * rows(row, kRowInverse) * scale[c] + shift[c];
  }
};

// The gradient of the input.
struct LayerNormGradient {
  Matrix<const float> rows;
  const float* scale;

  SIMURGH_HOST_DEVICE float operator()(size_t row, size_t c, float x, float dy) const {
    const float inverse = rows(row, kRowInverse);
    const float normalised = (x - rows(row, kRowMean)) * inverse;
    return inverse * (dy * scale[c] - rows(row, kRowOffset) - normalised * rows(row, kRowSlope));
  }
};

// The terms of the scales' gradient.
struct LayerNormScaleGradient {
  Matrix<const float> rows;

  SIMURGH_HOST_DEVICE float operator()(size_t row, size_t /*c*/, float x, float dy) const {
    return dy * ((x - rows(row, kRowMean)) * rows(row, kRowInverse));
  }
};

}  // namespace simurgh::cuda
