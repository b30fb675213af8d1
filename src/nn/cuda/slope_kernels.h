#pragma once

#include <cstddef>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/formulas.h"

// Activations with a learned slope for each column: prelu and dice.
namespace simurgh::cuda {

template <typename T>
struct PreluCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  const float* slope;
  Matrix<T> output;

  bool Packs() const { return AllPack<kPack>(input, output); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto x = input.template Load<N>(row, column);
    Pack<T, N> y;
    for (size_t k = 0; k < N; ++k) {
      Assign(y[k], PreluFormula::Value(ToFloat(x[k]), slope[column + k]));
    }
    output.template Store<N>(row, column, y);
  }
};

template <typename T>
struct PreluBackwardCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  const float* slope;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  bool Packs() const { return AllPack<kPack>(input, output_gradient, input_gradient); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto x = input.template Load<N>(row, column);
    const auto dy = output_gradient.template Load<N>(row, column);
    Pack<T, N> dx;
    for (size_t k = 0; k < N; ++k) {
      Assign(dx[k], PreluFormula::Gradient(ToFloat(x[k]), slope[column + k], ToFloat(dy[k])));
    }
    input_gradient.template Store<N>(row, column, dx);
  }
};

// The terms of the slopes' gradient.
template <typename T>
struct PreluSlopeTerm {
  static constexpr size_t kPack = kSumPack<T>;

  Matrix<const T> input;
  Matrix<const T> output_gradient;

  bool Packs() const { return AllPack<kPack>(input, output_gradient); }

  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Of(size_t row, size_t column) const {
    const auto x = input.template Load<N>(row, column);
    const auto dy = output_gradient.template Load<N>(row, column);
    Pack<float, N> terms;
    for (size_t k = 0; k < N; ++k) {
      terms[k] = PreluFormula::SlopeGradient(ToFloat(x[k]), ToFloat(dy[k]));
    }
    return terms;
  }
};

// Arrays of a value for each column. `inverse` is the inverse of the deviation.
struct DiceParameters {
  const float* slope;
  const float* mean;
  const float* inverse;

  // Returns the normalised input.
  SIMURGH_HOST_DEVICE float Normalised(float x, size_t column) const {
    return (x - mean[column]) * inverse[column];
  }
};

template <typename T>
struct DiceCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  DiceParameters of;
  Matrix<T> output;

  bool Packs() const { return AllPack<kPack>(input, output); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto values = input.template Load<N>(row, column);
    Pack<T, N> y;
    for (size_t k = 0; k < N; ++k) {
      const size_t c = column + k;
      const float x = ToFloat(values[k]);
      Assign(y[k], DiceFormula::Value(x, of.Normalised(x, c), of.slope[c]));
    }
    output.template Store<N>(row, column, y);
  }
};

// A sum over the batch that the backward pass of dice needs.
enum class DiceSum {
  kSlope,                 // Gradient of the slope.
  kNormalised,            // Gradient of the normalised input.
  kNormalisedTimesInput,  // Product of that gradient and the normalised input.
};

template <typename T, DiceSum kSum>
struct DiceTerm {
  static constexpr size_t kPack = kSumPack<T>;

  Matrix<const T> input;
  Matrix<const T> output_gradient;
  DiceParameters of;

  bool Packs() const { return AllPack<kPack>(input, output_gradient); }

  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Of(size_t row, size_t column) const {
    const auto values = input.template Load<N>(row, column);
    const auto gradients = output_gradient.template Load<N>(row, column);
    Pack<float, N> terms;
    for (size_t k = 0; k < N; ++k) {
      const size_t c = column + k;
      const float x = ToFloat(values[k]);
      const float dy = ToFloat(gradients[k]);
      const float z = of.Normalised(x, c);
      if constexpr (kSum == DiceSum::kSlope) {
        terms[k] = DiceFormula::SlopeGradient(x, z, dy);
      } else {
        const float dz = DiceFormula::NormalisedGradient(x, z, of.slope[c], dy);
        terms[k] = kSum == DiceSum::kNormalised ? dz : dz * z;
      }
    }
    return terms;
  }
};

// Computes the gradient of the input from the means over the batch, or over all ranks' batches, of
// the gradient of the normalised input, and of that times the normalised input.
template <typename T>
struct DiceBackwardCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  Matrix<const T> output_gradient;
  DiceParameters of;
  const float* means;             // (C)
  const float* normalised_means;  // (C)
  Matrix<T> input_gradient;

  bool Packs() const { return AllPack<kPack>(input, output_gradient, input_gradient); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto values = input.template Load<N>(row, column);
    const auto gradients = output_gradient.template Load<N>(row, column);
    Pack<T, N> dx;
    for (size_t k = 0; k < N; ++k) {
      const size_t c = column + k;
      const float x = ToFloat(values[k]);
      const float dy = ToFloat(gradients[k]);
      const float z = of.Normalised(x, c);
      const float dz = DiceFormula::NormalisedGradient(x, z, of.slope[c], dy);
      Assign(dx[k], DiceFormula::Gradient(z, of.slope[c], dy) +
                        of.inverse[c] * (dz - means[c] - z * normalised_means[c]));
    }
    input_gradient.template Store<N>(row, column, dx);
  }
};

}  // namespace simurgh::cuda
