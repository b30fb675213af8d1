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

template <typename T>
struct LayerNormCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  Matrix<const float> rows;
  const float* scale;
  const float* shift;
  Matrix<T> output;

  bool Packs() const { return AllPack<kPack>(input, output); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const float mean = rows(row, kRowMean);
    const float inverse = rows(row, kRowInverse);
    const auto x = input.template Load<N>(row, column);
    Pack<T, N> y;
    for (size_t k = 0; k < N; ++k) {
      const size_t c = column + k;
      Assign(y[k], (ToFloat(x[k]) - mean) * inverse * scale[c] + shift[c]);
    }
    output.template Store<N>(row, column, y);
  }
};

template <typename T>
struct LayerNormBackwardCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  Matrix<const T> output_gradient;
  Matrix<const float> rows;
  const float* scale;
  Matrix<T> input_gradient;

  bool Packs() const { return AllPack<kPack>(input, output_gradient, input_gradient); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const float mean = rows(row, kRowMean);
    const float inverse = rows(row, kRowInverse);
    const float offset = rows(row, kRowOffset);
    const float slope = rows(row, kRowSlope);
    const auto x = input.template Load<N>(row, column);
    const auto dy = output_gradient.template Load<N>(row, column);
    Pack<T, N> dx;
    for (size_t k = 0; k < N; ++k) {
      const float normalised = (ToFloat(x[k]) - mean) * inverse;
      Assign(dx[k], inverse * (ToFloat(dy[k]) * scale[column + k] - offset - normalised * slope));
    }
    input_gradient.template Store<N>(row, column, dx);
  }
};

// The terms of the scale's gradient.
template <typename T>
struct LayerNormScaleTerm {
  static constexpr size_t kPack = kSumPack<T>;

  Matrix<const T> input;
  Matrix<const T> output_gradient;
  Matrix<const float> rows;

  bool Packs() const { return AllPack<kPack>(input, output_gradient); }

  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Of(size_t row, size_t column) const {
    const auto x = input.template Load<N>(row, column);
    const auto dy = output_gradient.template Load<N>(row, column);
    const float mean = rows(row, kRowMean);
    const float inverse = rows(row, kRowInverse);
    Pack<float, N> terms;
    for (size_t k = 0; k < N; ++k) {
      terms[k] = ToFloat(dy[k]) * ((ToFloat(x[k]) - mean) * inverse);
    }
    return terms;
  }
};

}  // namespace simurgh::cuda
