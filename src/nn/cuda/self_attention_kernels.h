#pragma once

#include <cstddef>

#include "nn/cuda/attention_kernels.h"
#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/host_device.h"

// Transformer blocks, see nn/cpu/self_attention.h. A matrix of rows has one for each place of each
// sample. A matrix of weights has, in a row, the weights of all places for each head.
namespace simurgh::cuda {

// Moves the rows of samples to a matrix of rows, and adds a vector for each place. Empty places
// become 0. Called for each cell of `to`.
template <typename T>
struct TakeRowsCell {
  AttentionInput<T> in;
  Matrix<const T> from;  // (B, places * dim), and columns behind them.
  const float* vectors;  // (places, dim), or null.
  Matrix<T> to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t d) const {
    const size_t sample = row / in.places;
    const size_t c = row % in.places * in.dim + d;
    float value = 0.0F;
    if (in.Has(row)) {
      value = ToFloat(from(sample, c)) + (vectors == nullptr ? 0.0F : vectors[c]);
    }
    Assign(to(row, d), value);
  }
};

// The opposite, with zeros behind the rows. Called for each cell of `to`.
template <typename T>
struct ReturnRowsCell {
  AttentionInput<T> in;
  Matrix<const T> from;
  Matrix<T> to;

  SIMURGH_HOST_DEVICE void operator()(size_t sample, size_t c) const {
    const size_t place = c / in.dim;
    const bool has_row = place < in.places && in.Has(sample, place);
    to(sample, c) = has_row ? from(sample * in.places + place, c % in.dim) : T{};
  }
};

// Products of the rows of a head: to(i, j) = factor * a(i) b(j) for places that i reads, `unread`
// for others, and 0 in empty places. Called for each cell of `to`.
template <typename T>
struct RowProductCell {
  AttentionInput<T> in;
  bool causal;
  size_t dim;  // Columns of a head.
  Matrix<const T> a;
  Matrix<const T> b;
  float factor;
  float unread;
  Matrix<float> to;
  bool packs = AllPack<kPackOf<T>>(a, b) && dim % kPackOf<T> == 0;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t c) const {
    const size_t place = row % in.places;
    const size_t other = c % in.places;
    float value = 0.0F;
    if (in.Has(row)) {
      const size_t other_row = row - place + other;
      const bool reads = in.Has(other_row) && !(causal && other > place);
      value = reads ? factor * Product(row, other_row, c / in.places * dim) : unread;
    }
    to(row, c) = value;
  }

 private:
  SIMURGH_HOST_DEVICE float Product(size_t i, size_t j, size_t first) const {
    constexpr size_t kPack = kPackOf<T>;
    float sum = 0.0F;
    if (packs) {
      for (size_t d = first; d < first + dim; d += kPack) {
        const auto x = a.template Load<kPack>(i, d);
        const auto y = b.template Load<kPack>(j, d);
        for (size_t k = 0; k < kPack; ++k) sum += ToFloat(x[k]) * ToFloat(y[k]);
      }
    } else {
      for (size_t d = first; d < first + dim; ++d) sum += ToFloat(a(i, d)) * ToFloat(b(j, d));
    }
    return sum;
  }
};

// Sums of rows for each head: to(i) = factor * the sum of weight(i, j) from(j), or of weight(j, i)
// from(j) if transposed.
template <typename T>
struct RowSumCell {
  static constexpr size_t kPack = kPackOf<T>;

  size_t places;
  size_t dim;  // Columns of a head.
  Matrix<const float> weights;
  bool transposed;
  Matrix<const T> from;
  float factor;
  Matrix<T> to;

  // A pack is of one head.
  bool Packs() const { return AllPack<kPack>(from, to) && dim % kPack == 0; }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const size_t place = row % places;
    const size_t first = row - place;
    const size_t head = column / dim * places;
    Pack<float, N> sums{};
    for (size_t j = 0; j < places; ++j) {
      const float weight = transposed ? weights(first + j, head + place) : weights(row, head + j);
      if (weight == 0.0F) continue;
      const auto x = from.template Load<N>(first + j, column);
      for (size_t k = 0; k < N; ++k) sums[k] += weight * ToFloat(x[k]);
    }
    Pack<T, N> y;
    for (size_t k = 0; k < N; ++k) Assign(y[k], factor * sums[k]);
    to.template Store<N>(row, column, y);
  }
};

}  // namespace simurgh::cuda
