#pragma once

#include <cstddef>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"

// A linear layer of one output, as kernels instead of products with a side of 1.
namespace simurgh::cuda {

// output(r, 0) = the dot product of row r with the weights, plus the bias; then calls next(r). Runs
// by ForEachSum.
template <typename T, typename Out, typename Next>
struct HeadRow {
  Matrix<const T> input;
  const float* weights;
  const float* bias;
  Matrix<Out> output;
  Next next;
  bool packs;  // input.Packs<kPackOf<T>>()

  SIMURGH_HOST_DEVICE float Lane(size_t row, size_t lane) const {
    constexpr size_t kPack = kPackOf<T>;
    float sum = 0.0F;
    for (size_t column = lane * kPack; column < input.columns; column += kSumLanes * kPack) {
      if (packs && column + kPack <= input.columns) {
        const auto values = input.template Load<kPack>(row, column);
        for (size_t k = 0; k < kPack; ++k) sum += ToFloat(values[k]) * weights[column + k];
      } else {
        for (size_t k = column; k < column + kPack && k < input.columns; ++k) {
          sum += ToFloat(input(row, k)) * weights[k];
        }
      }
    }
    return sum;
  }
  SIMURGH_HOST_DEVICE void Finish(size_t row, float sum) const {
    Assign(output(row, 0), sum + *bias);
    next(row);
  }
};

// Does nothing after a HeadRow whose output is an activation.
struct NoNext {
  SIMURGH_HOST_DEVICE void operator()(size_t /*row*/) const {}
};

// A head whose input is no activation.
struct IdentityFormula {
  SIMURGH_HOST_DEVICE static float Value(float x) { return x; }
  SIMURGH_HOST_DEVICE static float Gradient(float /*saved*/, float dy) { return dy; }
};

// Computes, for a block of rows, partial sums of the gradients of the weights and, in the last
// column, of the bias; and the gradient of the input, or of what went into the activation before
// it. Called for each (block, column of the input).
template <typename T, typename Formula>
struct HeadBackwardCell {
  static constexpr size_t kPack = kSumPack<T>;

  Matrix<const T> input;
  Matrix<const T> saved;            // See formulas.h.
  Matrix<const T> output_gradient;  // (B, 1)
  const float* weights;
  Matrix<T> input_gradient;  // Without data if it is not needed.
  Matrix<float> partial;     // (blocks, columns + 1)

  bool Packs() const {
    return input.template Packs<kPack>() && saved.template Packs<kPack>() &&
           input_gradient.template Packs<kPack>();
  }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t block, size_t column) const {
    const size_t begin = block * kSumBlockRows;
    const size_t end = begin + kSumBlockRows < input.rows ? begin + kSumBlockRows : input.rows;
    float sums[N] = {};
    float bias = 0.0F;
    for (size_t row = begin; row < end; ++row) {
      const float gradient = ToFloat(output_gradient(row, 0));
      const auto x = input.template Load<N>(row, column);
      for (size_t k = 0; k < N; ++k) sums[k] += gradient * ToFloat(x[k]);
      bias += gradient;
      if (input_gradient.data == nullptr) continue;
      const auto before = saved.template Load<N>(row, column);
      Pack<T, N> dx;
      for (size_t k = 0; k < N; ++k) {
        Assign(dx[k], Formula::Gradient(ToFloat(before[k]), gradient * weights[column + k]));
      }
      input_gradient.template Store<N>(row, column, dx);
    }
    for (size_t k = 0; k < N; ++k) partial(block, column + k) = sums[k];
    if (column == 0) partial(block, input.columns) = bias;
  }
};

}  // namespace simurgh::cuda
