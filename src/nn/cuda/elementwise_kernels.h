#pragma once

#include <cstddef>

#include "nn/cuda/bfloat16.h"
#include "nn/cuda/matrix.h"
#include "nn/formulas.h"

// Elementwise kernels, called once for each (row, column). Calls of a launch are independent.
namespace simurgh::cuda {

// to(r, c) = from(r, c), which is 0 beyond from's columns.
template <typename From, typename To>
struct CopyCell {
  Matrix<const From> from;
  Matrix<To> to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(to(row, column), column < from.columns ? ToFloat(from(row, column)) : 0.0F);
  }
};

template <typename From, typename To>
struct AddCell {
  Matrix<const From> from;
  Matrix<To> to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(to(row, column), ToFloat(to(row, column)) + ToFloat(from(row, column)));
  }
};

template <typename T>
struct ZeroCell {
  Matrix<T> target;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(target(row, column), 0.0F);
  }
};

// values(r, c) += bias[c], optionally followed by max(0, .).
template <typename T>
struct AddBiasCell {
  Matrix<T> values;
  const float* bias;
  bool relu;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const float sum = ToFloat(values(row, column)) + bias[column];
    Assign(values(row, column), relu ? ReluFormula::Value(sum) : sum);
  }
};

// Formula: see formulas.h.
template <typename T, typename Formula>
struct ActivationCell {
  Matrix<const T> input;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(output(row, column), Formula::Value(ToFloat(input(row, column))));
  }
};

// input_gradient may be output_gradient.
template <typename T, typename Formula>
struct ActivationBackwardCell {
  Matrix<const T> saved;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(input_gradient(row, column),
           Formula::Gradient(ToFloat(saved(row, column)), ToFloat(output_gradient(row, column))));
  }
};

// values = gelu(values + bias); stores the input of gelu.
template <typename T>
struct AddBiasGeluCell {
  Matrix<T> values;
  const float* bias;
  Matrix<T> gelu_input;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const float sum = ToFloat(values(row, column)) + bias[column];
    Assign(gelu_input(row, column), sum);
    Assign(values(row, column), GeluFormula::Value(sum));
  }
};

// The cross layer's y = x0 * u + x.
template <typename T>
struct CrossCombineCell {
  Matrix<const T> origin;
  Matrix<const T> outer;
  Matrix<const T> input;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(output(row, column), ToFloat(origin(row, column)) * ToFloat(outer(row, column)) +
                                    ToFloat(input(row, column)));
  }
};

template <typename T>
struct CrossCombineBackwardCell {
  Matrix<const T> origin;
  Matrix<const T> outer;
  Matrix<const T> output_gradient;
  Matrix<T> outer_gradient;
  Matrix<T> origin_gradient;
  bool add_to_origin;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const float gradient = ToFloat(output_gradient(row, column));
    const float before = add_to_origin ? ToFloat(origin_gradient(row, column)) : 0.0F;
    Assign(outer_gradient(row, column), gradient * ToFloat(origin(row, column)));
    Assign(origin_gradient(row, column), before + gradient * ToFloat(outer(row, column)));
  }
};

}  // namespace simurgh::cuda
