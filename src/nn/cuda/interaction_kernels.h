#pragma once

#include <cmath>
#include <cstddef>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"

// Interactions of consecutive vectors, each `dim` wide, in a sample's columns.
namespace simurgh::cuda {

// Returns the index of the pair (v, 0), followed by (v, 1), ...
SIMURGH_HOST_DEVICE inline size_t FirstPair(size_t v) { return v * (v - 1) / 2; }

// Returns the larger vector v of a pair; the smaller one is pair - FirstPair(v).
SIMURGH_HOST_DEVICE inline size_t LargerOfPair(size_t pair) {
  // A root in f32 is fast; its error is corrected.
  auto v = static_cast<size_t>((1.0F + std::sqrt(1.0F + 8.0F * static_cast<float>(pair))) / 2.0F);
  while (FirstPair(v) > pair) --v;
  while (FirstPair(v + 1) <= pair) ++v;
  return v;
}

// Computes dot products. Called for each (row, pair), only for rows too long for a block's memory.
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

// Computes the gradient of the input. Called for each (row, column of the input), only for rows too
// long for a block's memory.
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

// Kernels of ForEachBlock, which keep a row's vectors in the block's memory.

// A row's vectors in the block's memory. A thread reads words of 4 bytes. Each vector has an odd
// number of words, so the same element of adjacent vectors lies in different banks.
template <typename T>
struct BlockVectors {
  static constexpr size_t kWord = 4 / sizeof(T);
  using Word = Pack<T, kWord>;

  Matrix<const T> input;
  size_t dim;
  size_t words = (dim + kWord - 1) / kWord | 1;  // Words of a vector.
  bool packs = AllPack<kWord>(input) && dim % kWord == 0;

  SIMURGH_HOST_DEVICE size_t vectors() const { return input.columns / dim; }
  SIMURGH_HOST_DEVICE size_t count() const { return vectors() * words; }
  SIMURGH_HOST_DEVICE size_t bytes() const { return count() * sizeof(Word); }

  // Copies word i of the row, with zeros behind each vector.
  SIMURGH_HOST_DEVICE void Fill(size_t row, size_t i, std::byte* block) const {
    const size_t first = i % words * kWord;
    const size_t column = i / words * dim + first;
    Word word;
    if (packs && first < dim) {
      word = input.template Load<kWord>(row, column);
    } else {
      for (size_t k = 0; k < kWord; ++k) {
        word[k] = first + k < dim ? input(row, column + k) : T{};
      }
    }
    reinterpret_cast<Word*>(block)[i] = word;
  }
  SIMURGH_HOST_DEVICE static const Word* Words(const std::byte* block) {
    return reinterpret_cast<const Word*>(block);
  }
};

template <typename T>
struct DotBlock {
  BlockVectors<T> x;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE size_t fills() const { return x.count(); }
  SIMURGH_HOST_DEVICE size_t cells() const { return output.columns; }
  size_t bytes() const { return x.bytes(); }

  SIMURGH_HOST_DEVICE void Fill(size_t row, size_t i, std::byte* block) const {
    x.Fill(row, i, block);
  }
  SIMURGH_HOST_DEVICE void Cell(size_t row, size_t pair, const std::byte* block) const {
    const size_t v = LargerOfPair(pair);
    const auto* const a = x.Words(block) + v * x.words;
    const auto* const b = x.Words(block) + (pair - FirstPair(v)) * x.words;
    float sum = 0.0F;
    for (size_t i = 0; i < x.words; ++i) {
      for (size_t k = 0; k < BlockVectors<T>::kWord; ++k)
        sum += ToFloat(a[i][k]) * ToFloat(b[i][k]);
    }
    Assign(output(row, pair), sum);
  }
};

// The gradients of the pairs are a symmetric matrix with a diagonal of zeros. A cell multiplies
// four of its rows by a word of all vectors.
template <typename T>
struct DotBackwardBlock {
  static constexpr size_t kTile = 4;
  using Tile = Pack<float, kTile>;

  BlockVectors<T> x;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;
  size_t tiles = (x.vectors() + kTile - 1) / kTile;
  // The vectors follow the matrix, whose tiles are aligned.
  size_t matrix_bytes = x.vectors() * tiles * sizeof(Tile);

  SIMURGH_HOST_DEVICE size_t fills() const { return x.count() + x.vectors() * tiles * kTile; }
  SIMURGH_HOST_DEVICE size_t cells() const { return x.words * tiles; }
  size_t bytes() const { return matrix_bytes + x.bytes(); }

  SIMURGH_HOST_DEVICE void Fill(size_t row, size_t i, std::byte* block) const {
    if (i < x.count()) return x.Fill(row, i, block + matrix_bytes);
    const size_t place = i - x.count();
    const size_t w = place / (tiles * kTile);
    const size_t v = place % (tiles * kTile);
    float gradient = 0.0F;
    if (v != w && v < x.vectors()) {
      gradient = ToFloat(output_gradient(row, v < w ? FirstPair(w) + v : FirstPair(v) + w));
    }
    reinterpret_cast<float*>(block)[place] = gradient;
  }
  SIMURGH_HOST_DEVICE void Cell(size_t row, size_t i, const std::byte* block) const {
    const size_t word = i % x.words;
    const size_t tile = i / x.words;
    const auto* const gradients = reinterpret_cast<const Tile*>(block) + tile;
    const auto* const values = x.Words(block + matrix_bytes) + word;
    float sums[kTile][BlockVectors<T>::kWord] = {};
    for (size_t w = 0; w < x.vectors(); ++w) {
      const Tile gradient = gradients[w * tiles];
      const auto value = values[w * x.words];
      for (size_t v = 0; v < kTile; ++v) {
        for (size_t k = 0; k < BlockVectors<T>::kWord; ++k)
          sums[v][k] += gradient[v] * ToFloat(value[k]);
      }
    }
    for (size_t v = 0; v < kTile && tile * kTile + v < x.vectors(); ++v) {
      for (size_t k = 0; k < BlockVectors<T>::kWord && word * BlockVectors<T>::kWord + k < x.dim;
           ++k) {
        Assign(input_gradient(row, (tile * kTile + v) * x.dim + word * BlockVectors<T>::kWord + k),
               sums[v][k]);
      }
    }
  }
};

// (|sum of the vectors|^2 - sum of their squares) / 2, element by element for precision. Runs by
// ForEachSum.
template <typename T>
struct FmRow {
  Matrix<const T> input;
  Matrix<float> sums;  // (B, D) sums of the vectors, for the backward pass.
  Matrix<T> output;

  SIMURGH_HOST_DEVICE float Lane(size_t row, size_t lane) const {
    const size_t dim = sums.columns;
    float total = 0.0F;
    for (size_t d = lane; d < dim; d += kSumLanes) {
      float sum = 0.0F;
      float squares = 0.0F;
      for (size_t column = d; column < input.columns; column += dim) {
        const float value = ToFloat(input(row, column));
        sum += value;
        squares += value * value;
      }
      sums(row, d) = sum;
      total += sum * sum - squares;
    }
    return total;
  }
  SIMURGH_HOST_DEVICE void Finish(size_t row, float total) const {
    Assign(output(row, 0), 0.5F * total);
  }
};

template <typename T>
struct FmBackwardCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  Matrix<float> sums;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  bool Packs() const { return AllPack<kPack>(input, input_gradient); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const float dy = ToFloat(output_gradient(row, 0));
    const auto x = input.template Load<N>(row, column);
    Pack<T, N> dx;
    size_t d = column % sums.columns;
    for (size_t k = 0; k < N; ++k) {
      Assign(dx[k], dy * (sums(row, d) - ToFloat(x[k])));
      if (++d == sums.columns) d = 0;
    }
    input_gradient.template Store<N>(row, column, dx);
  }
};

// Sums of equal parts of a sample's columns. Runs by ForEachSum for each sum.
template <typename T, typename Out>
struct SumOfPart {
  Matrix<const T> input;
  Matrix<Out> output;

  SIMURGH_HOST_DEVICE float Lane(size_t i, size_t lane) const {
    const size_t row = i / output.columns;
    const size_t terms = input.columns / output.columns;
    const size_t first = i % output.columns * terms;
    float sum = 0.0F;
    for (size_t term = lane; term < terms; term += kSumLanes) {
      sum += ToFloat(input(row, first + term));
    }
    return sum;
  }
  SIMURGH_HOST_DEVICE void Finish(size_t i, float sum) const {
    Assign(output(i / output.columns, i % output.columns), sum);
  }
};

template <typename T>
struct SumBackwardCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  bool Packs() const { return AllPack<kPack>(input_gradient); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const size_t terms = input_gradient.columns / output_gradient.columns;
    Pack<T, N> dx;
    for (size_t k = 0; k < N; ++k) dx[k] = output_gradient(row, (column + k) / terms);
    input_gradient.template Store<N>(row, column, dx);
  }
};

// Memory of a block on every device.
inline constexpr size_t kBlockBytes = size_t{48} << 10;

template <typename Executor, typename T>
void Dot(Executor& executor, const Matrix<const T>& input, size_t dim, const Matrix<T>& output) {
  const DotBlock<T> kernel{{input, dim}, output};
  if (kernel.bytes() <= kBlockBytes) return executor.ForEachBlock(input.rows, kernel);
  executor.ForEachCell(output.rows, output.columns, DotCell<T>{input, dim, output});
}

template <typename Executor, typename T>
void DotBackward(Executor& executor, const Matrix<const T>& input, size_t dim,
                 const Matrix<const T>& output_gradient, const Matrix<T>& input_gradient) {
  const DotBackwardBlock<T> kernel{{input, dim}, output_gradient, input_gradient};
  if (kernel.bytes() <= kBlockBytes) return executor.ForEachBlock(input.rows, kernel);
  executor.ForEachCell(input.rows, input.columns,
                       DotBackwardCell<T>{input, dim, output_gradient, input_gradient});
}

}  // namespace simurgh::cuda
