#pragma once

#include <cmath>
#include <cstddef>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"

// Interactions of consecutive vectors, each `dim` wide, in a sample's columns.
namespace simurgh::cuda {

// Index of the pair (v, 0), followed by (v, 1), ...
SIMURGH_HOST_DEVICE inline size_t FirstPair(size_t v) { return v * (v - 1) / 2; }

// The larger vector v of a pair; the smaller one is pair - FirstPair(v).
SIMURGH_HOST_DEVICE inline size_t LargerOfPair(size_t pair) {
  // Rounding of the root makes v wrong by one at most.
  auto v = static_cast<size_t>((1.0 + std::sqrt(1.0 + 8.0 * static_cast<double>(pair))) / 2.0);
  while (FirstPair(v) > pair) --v;
  while (FirstPair(v + 1) <= pair) ++v;
  return v;
}

// Called for each (row, pair).
template <typename T>
struct DotCell {
  Matrix<const T> input;
  size_t dim;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t pair) const {
    const size_t v = LargerOfPair(pair);
    const T* a = &input(row, v * dim);
    const T* b = &input(row, (pair - FirstPair(v)) * dim);
    float sum = 0.0F;
    for (size_t d = 0; d < dim; ++d) sum += ToFloat(a[d]) * ToFloat(b[d]);
    Assign(output(row, pair), sum);
  }
};

// Called for each (row, column of the input).
template <typename T>
struct DotBackwardCell {
  Matrix<const T> input;
  size_t dim;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const size_t vectors = input.columns / dim;
    const size_t v = column / dim;
    const size_t d = column % dim;
    float sum = 0.0F;
    for (size_t w = 0; w < v; ++w) {
      sum += ToFloat(output_gradient(row, FirstPair(v) + w)) * ToFloat(input(row, w * dim + d));
    }
    for (size_t w = v + 1; w < vectors; ++w) {
      sum += ToFloat(output_gradient(row, FirstPair(w) + v)) * ToFloat(input(row, w * dim + d));
    }
    Assign(input_gradient(row, column), sum);
  }
};

// sums(r, d) = the sum over all vectors of element d. Called for each (row, d).
template <typename T>
struct VectorSumCell {
  Matrix<const T> input;
  size_t dim;
  Matrix<float> sums;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t d) const {
    float sum = 0.0F;
    for (size_t column = d; column < input.columns; column += dim) {
      sum += ToFloat(input(row, column));
    }
    sums(row, d) = sum;
  }
};

// (|sum of the vectors|^2 - sum of their squares) / 2, element by element for precision. Called for
// each row.
template <typename T>
struct FmRow {
  Matrix<const T> input;
  Matrix<float> sums;  // From VectorSumCell.
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row) const {
    const size_t dim = sums.columns;
    float total = 0.0F;
    for (size_t d = 0; d < dim; ++d) {
      float squares = 0.0F;
      for (size_t column = d; column < input.columns; column += dim) {
        const float value = ToFloat(input(row, column));
        squares += value * value;
      }
      total += sums(row, d) * sums(row, d) - squares;
    }
    Assign(output(row, 0), 0.5F * total);
  }
};

// Called for each (row, column of the input).
template <typename T>
struct FmBackwardCell {
  Matrix<const T> input;
  Matrix<float> sums;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(input_gradient(row, column),
           ToFloat(output_gradient(row, 0)) *
               (sums(row, column % sums.columns) - ToFloat(input(row, column))));
  }
};

// Sums of equal parts of a sample's columns. Called for each row.
template <typename T, typename Out>
struct SumRow {
  Matrix<const T> input;
  Matrix<Out> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row) const {
    const size_t terms = input.columns / output.columns;
    for (size_t column = 0; column < output.columns; ++column) {
      float sum = 0.0F;
      for (size_t term = 0; term < terms; ++term) sum += ToFloat(input(row, column * terms + term));
      Assign(output(row, column), sum);
    }
  }
};

// Called for each (row, column of the input).
template <typename T>
struct SumBackwardCell {
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const size_t terms = input_gradient.columns / output_gradient.columns;
    Assign(input_gradient(row, column), ToFloat(output_gradient(row, column / terms)));
  }
};

}  // namespace simurgh::cuda
