#pragma once

#include <cmath>
#include <cstddef>

#include "nn/cuda/bfloat16.h"
#include "nn/cuda/matrix.h"

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

// NaN stays NaN, which makes the loss NaN.
SIMURGH_HOST_DEVICE inline float Relu(float x) { return x < 0.0F ? 0.0F : x; }

SIMURGH_HOST_DEVICE inline float Sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

// values(r, c) += bias[c], optionally followed by max(0, .).
template <typename T>
struct AddBiasCell {
  Matrix<T> values;
  const float* bias;
  bool relu;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const float sum = ToFloat(values(row, column)) + bias[column];
    Assign(values(row, column), relu ? Relu(sum) : sum);
  }
};

template <typename T>
struct ReluCell {
  Matrix<const T> input;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(output(row, column), Relu(ToFloat(input(row, column))));
  }
};

// input_gradient may be output_gradient.
template <typename T>
struct ReluBackwardCell {
  Matrix<const T> output;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const float gradient = ToFloat(output_gradient(row, column));
    Assign(input_gradient(row, column), ToFloat(output(row, column)) > 0.0F ? gradient : 0.0F);
  }
};

// As the CPU backend's (nn/cpu/activation.cc).
inline constexpr float kGeluRate = 1.5957691216F;  // 2 sqrt(2 / pi)
inline constexpr float kGeluCubic = 0.044715F;

SIMURGH_HOST_DEVICE inline float GeluGate(float x) {
  return 1.0F / (1.0F + std::exp(-kGeluRate * (x + kGeluCubic * x * x * x)));
}
SIMURGH_HOST_DEVICE inline float Gelu(float x) { return x * GeluGate(x); }
SIMURGH_HOST_DEVICE inline float GeluSlope(float x) {
  const float gate = GeluGate(x);
  const float rate = kGeluRate * (1.0F + 3.0F * kGeluCubic * x * x);
  return gate + x * gate * (1.0F - gate) * rate;
}

template <typename T>
struct GeluCell {
  Matrix<const T> input;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(output(row, column), Gelu(ToFloat(input(row, column))));
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
    Assign(values(row, column), Gelu(sum));
  }
};

// input_gradient may be output_gradient.
template <typename T>
struct GeluBackwardCell {
  Matrix<const T> input;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(input_gradient(row, column),
           ToFloat(output_gradient(row, column)) * GeluSlope(ToFloat(input(row, column))));
  }
};

template <typename T>
struct SigmoidCell {
  Matrix<const T> input;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(output(row, column), Sigmoid(ToFloat(input(row, column))));
  }
};

template <typename T>
struct SigmoidBackwardCell {
  Matrix<const T> output;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const float y = ToFloat(output(row, column));
    Assign(input_gradient(row, column), ToFloat(output_gradient(row, column)) * (y * (1.0F - y)));
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
