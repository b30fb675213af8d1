#pragma once

#include <cmath>
#include <cstddef>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/formulas.h"

// Layers of equal pieces of a sample's columns: product, joint, softmax, l2_norm, mix and bilinear.
// See nn/cpu/pieces.h, nn/cpu/interaction.h, nn/cpu/l2_norm.h and nn/cpu/bilinear.h.
namespace simurgh::cuda {

template <typename T>
struct ProductCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  Matrix<T> output;
  bool input_packs = AllPack<kPack>(input) && output.columns % kPack == 0;

  bool Packs() const { return AllPack<kPack>(output); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    Pack<float, N> products;
    for (size_t k = 0; k < N; ++k) products[k] = 1.0F;
    for (size_t c = column; c < input.columns; c += output.columns) {
      const auto x = input.template Load<N>(row, c, input_packs);
      for (size_t k = 0; k < N; ++k) products[k] *= ToFloat(x[k]);
    }
    Pack<T, N> y;
    for (size_t k = 0; k < N; ++k) Assign(y[k], products[k]);
    output.template Store<N>(row, column, y);
  }
};

// Multiplies dy by the pieces before a piece, then by those behind it. Called for each (row, column
// of a piece).
template <typename T>
struct ProductBackwardCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  bool Packs() const {
    return AllPack<kPack>(input, output_gradient, input_gradient) &&
           output_gradient.columns % kPack == 0;
  }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const size_t dim = output_gradient.columns;
    const auto dy = output_gradient.template Load<N>(row, column);
    Pack<float, N> product;
    for (size_t k = 0; k < N; ++k) product[k] = ToFloat(dy[k]);
    for (size_t c = column; c < input.columns; c += dim) {
      Pack<T, N> before;
      for (size_t k = 0; k < N; ++k) Assign(before[k], product[k]);
      input_gradient.template Store<N>(row, c, before);
      Multiply(product, input.template Load<N>(row, c));
    }
    for (size_t k = 0; k < N; ++k) product[k] = 1.0F;
    for (size_t c = input.columns - dim + column; c != column; c -= dim) {
      Multiply(product, input.template Load<N>(row, c));
      auto dx = input_gradient.template Load<N>(row, c - dim);
      for (size_t k = 0; k < N; ++k) Assign(dx[k], ToFloat(dx[k]) * product[k]);
      input_gradient.template Store<N>(row, c - dim, dx);
    }
  }

 private:
  template <size_t N>
  SIMURGH_HOST_DEVICE static void Multiply(Pack<float, N>& product, const Pack<T, N>& factors) {
    for (size_t k = 0; k < N; ++k) product[k] *= ToFloat(factors[k]);
  }
};

// Returns the sum of JointFormula::Term over the pieces at a column of the output.
template <typename T>
SIMURGH_HOST_DEVICE double JointSum(const Matrix<const T>& input, size_t dim, size_t row,
                                    size_t column) {
  double sum = 0;
  for (size_t c = column; c < input.columns; c += dim) {
    sum += JointFormula::Term(static_cast<double>(ToFloat(input(row, c))));
  }
  return sum;
}

// Called for each (row, column of the output).
template <typename T>
struct JointCell {
  Matrix<const T> input;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const double sum = JointSum(input, output.columns, row, column);
    Assign(output(row, column), static_cast<float>(JointFormula::Value(sum)));
  }
};

// Called for each (row, column of the input).
template <typename T>
struct JointBackwardCell {
  Matrix<const T> input;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const size_t dim = output_gradient.columns;
    const double sum = JointSum(input, dim, row, column % dim);
    const auto z = static_cast<double>(ToFloat(input(row, column)));
    const auto dy = static_cast<double>(ToFloat(output_gradient(row, column % dim)));
    Assign(input_gradient(row, column), static_cast<float>(JointFormula::Gradient(sum, z, dy)));
  }
};

// Called for each row: gates are few.
template <typename T>
struct SoftmaxRow {
  Matrix<const T> input;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row) const {
    float largest = ToFloat(input(row, 0));
    for (size_t c = 1; c < input.columns; ++c) {
      const float x = ToFloat(input(row, c));
      largest = x > largest ? x : largest;
    }
    float sum = 0.0F;
    for (size_t c = 0; c < input.columns; ++c) sum += std::exp(ToFloat(input(row, c)) - largest);
    for (size_t c = 0; c < input.columns; ++c) {
      Assign(output(row, c), std::exp(ToFloat(input(row, c)) - largest) / sum);
    }
  }
};

// Called for each row.
template <typename T>
struct SoftmaxBackwardRow {
  Matrix<const T> output;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row) const {
    float mean = 0.0F;
    for (size_t c = 0; c < output.columns; ++c) {
      mean += ToFloat(output(row, c)) * ToFloat(output_gradient(row, c));
    }
    for (size_t c = 0; c < output.columns; ++c) {
      Assign(input_gradient(row, c),
             ToFloat(output(row, c)) * (ToFloat(output_gradient(row, c)) - mean));
    }
  }
};

// Returns the sum of the products of two matrices' columns.
template <typename T>
SIMURGH_HOST_DEVICE double RowProduct(const Matrix<const T>& a, const Matrix<const T>& b,
                                      size_t row) {
  double sum = 0;
  for (size_t c = 0; c < a.columns; ++c) {
    sum += static_cast<double>(ToFloat(a(row, c))) * static_cast<double>(ToFloat(b(row, c)));
  }
  return sum;
}

// Called for each row.
template <typename T>
struct L2NormRow {
  Matrix<const T> input;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row) const {
    const double inverse = L2NormFormula::Inverse(RowProduct(input, input, row));
    for (size_t c = 0; c < input.columns; ++c) {
      const auto x = static_cast<double>(ToFloat(input(row, c)));
      Assign(output(row, c), static_cast<float>(x * inverse));
    }
  }
};

// Called for each row.
template <typename T>
struct L2NormBackwardRow {
  Matrix<const T> input;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row) const {
    const double factor = L2NormFormula::GradientFactor(RowProduct(input, input, row));
    const double slope = RowProduct(input, output_gradient, row) * factor;
    for (size_t c = 0; c < input.columns; ++c) {
      const auto x = static_cast<double>(ToFloat(input(row, c)));
      const auto dy = static_cast<double>(ToFloat(output_gradient(row, c)));
      Assign(input_gradient(row, c), L2NormFormula::Gradient(x, dy, factor, slope));
    }
  }
};

// The sum of vectors, each times a gate. The gates are the input's first columns.
template <typename T>
struct MixCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  size_t terms;
  Matrix<T> output;
  bool input_packs = AllPack<kPack>(input) && terms % kPack == 0 && output.columns % kPack == 0;

  bool Packs() const { return AllPack<kPack>(output); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    Pack<float, N> sums{};
    for (size_t term = 0; term < terms; ++term) {
      const float gate = ToFloat(input(row, term));
      const auto x =
          input.template Load<N>(row, terms + term * output.columns + column, input_packs);
      for (size_t k = 0; k < N; ++k) sums[k] += gate * ToFloat(x[k]);
    }
    Pack<T, N> y;
    for (size_t k = 0; k < N; ++k) Assign(y[k], sums[k]);
    output.template Store<N>(row, column, y);
  }
};

// Computes the gradients of the vectors. Called for each (row, column behind the gates).
template <typename T>
struct MixBackwardCell {
  Matrix<const T> input;
  size_t terms;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const size_t dim = output_gradient.columns;
    const float gate = ToFloat(input(row, column / dim));
    Assign(input_gradient(row, terms + column), gate * ToFloat(output_gradient(row, column % dim)));
  }
};

// Computes the gradients of the gates. Runs by ForEachSum for each gate.
template <typename T>
struct MixGateGradient {
  Matrix<const T> input;
  size_t terms;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE float Lane(size_t i, size_t lane) const {
    const size_t row = i / terms;
    const size_t dim = output_gradient.columns;
    const size_t first = terms + i % terms * dim;
    float sum = 0.0F;
    for (size_t d = lane; d < dim; d += kSumLanes) {
      sum += ToFloat(input(row, first + d)) * ToFloat(output_gradient(row, d));
    }
    return sum;
  }
  SIMURGH_HOST_DEVICE void Finish(size_t i, float sum) const {
    Assign(input_gradient(i / terms, i % terms), sum);
  }
};

// to = the square matrix with the heads' blocks on its diagonal, and zeros. Called for each cell.
template <typename T>
struct SpreadHeads {
  const float* heads;  // (C, width of a block)
  size_t block;
  Matrix<T> to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const bool is_in_block = row / block == column / block;
    Assign(to(row, column), is_in_block ? heads[row * block + column % block] : 0.0F);
  }
};

// The reverse of SpreadHeads. Called for each (row, column of a block).
struct CollectHeads {
  Matrix<const float> from;
  size_t block;
  float* heads;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    heads[row * block + column] = from(row, row / block * block + column);
  }
};

// The dot product of the rows of two matrices. Runs by ForEachSum for each row.
template <typename T, typename Out>
struct ProductOfRows {
  Matrix<const T> first;
  Matrix<const T> second;
  Matrix<Out> output;

  SIMURGH_HOST_DEVICE float Lane(size_t row, size_t lane) const {
    float sum = 0.0F;
    for (size_t c = lane; c < first.columns; c += kSumLanes) {
      sum += ToFloat(first(row, c)) * ToFloat(second(row, c));
    }
    return sum;
  }
  SIMURGH_HOST_DEVICE void Finish(size_t row, float sum) const { Assign(output(row, 0), sum); }
};

// Computes the gradients of `product` and, if it has memory, of the second half.
template <typename T>
struct BilinearBackwardCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> product;
  Matrix<const T> second;
  Matrix<const T> output_gradient;
  Matrix<T> product_gradient;
  Matrix<T> second_gradient;

  bool Packs() const {
    return AllPack<kPack>(product, second, product_gradient) &&
           (second_gradient.data == nullptr || AllPack<kPack>(second_gradient));
  }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const float dy = ToFloat(output_gradient(row, 0));
    const auto u = product.template Load<N>(row, column);
    const auto x = second.template Load<N>(row, column);
    Pack<T, N> du;
    Pack<T, N> dx;
    for (size_t k = 0; k < N; ++k) {
      Assign(du[k], dy * ToFloat(x[k]));
      Assign(dx[k], dy * ToFloat(u[k]));
    }
    product_gradient.template Store<N>(row, column, du);
    if (second_gradient.data != nullptr) second_gradient.template Store<N>(row, column, dx);
  }
};

}  // namespace simurgh::cuda
