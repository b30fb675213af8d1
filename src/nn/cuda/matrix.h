#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "nn/host_device.h"

namespace simurgh::cuda {

// Bytes that a thread moves at once.
inline constexpr size_t kPackBytes = 16;

// Elements of T in kPackBytes.
template <typename T>
inline constexpr size_t kPackOf = kPackBytes / sizeof(T);

// N adjacent elements, moved at once.
template <typename T, size_t N>
struct alignas(N * sizeof(T) < kPackBytes ? N * sizeof(T) : kPackBytes) Pack {
  T values[N];

  SIMURGH_HOST_DEVICE T& operator[](size_t i) { return values[i]; }
  SIMURGH_HOST_DEVICE const T& operator[](size_t i) const { return values[i]; }
};

// A row-major matrix in device memory. T: float, Bfloat16 or Float16, or const.
template <typename T>
struct Matrix {
  T* data = nullptr;
  size_t rows = 0;
  size_t columns = 0;
  size_t stride = 0;  // Distance between rows, in elements.

  SIMURGH_HOST_DEVICE T& operator()(size_t row, size_t column) const {
    return data[row * stride + column];
  }

  template <size_t N>
  using PackOf = Pack<std::remove_const_t<T>, N>;

  // N elements of a row. Requires Packs<N>() and a column that N divides.
  template <size_t N>
  SIMURGH_HOST_DEVICE PackOf<N> Load(size_t row, size_t column) const {
    return *reinterpret_cast<const PackOf<N>*>(&(*this)(row, column));
  }
  template <size_t N>
  SIMURGH_HOST_DEVICE void Store(size_t row, size_t column, const PackOf<N>& pack) const {
    *reinterpret_cast<PackOf<N>*>(&(*this)(row, column)) = pack;
  }
  // Loads N elements of a row, element by element unless `packed`.
  template <size_t N>
  SIMURGH_HOST_DEVICE PackOf<N> Load(size_t row, size_t column, bool packed) const {
    if (packed) return Load<N>(row, column);
    PackOf<N> pack;
    for (size_t k = 0; k < N; ++k) pack[k] = (*this)(row, column + k);
    return pack;
  }
  // Returns whether every N-th element of a row is aligned as a pack.
  template <size_t N>
  bool Packs() const {
    const size_t bytes = alignof(PackOf<N>);
    return reinterpret_cast<uintptr_t>(data) % bytes == 0 && stride * sizeof(T) % bytes == 0;
  }

  // Returns columns [first, first + count).
  Matrix Columns(size_t first, size_t count) const { return {data + first, rows, count, stride}; }

  // Returns rows [first, first + count).
  Matrix Rows(size_t first, size_t count) const {
    return {data + first * stride, count, columns, stride};
  }

  // Converts a mutable view to a const view.
  operator Matrix<const T>() const  // NOLINT(google-explicit-constructor)
    requires(!std::is_const_v<T>)
  {
    return {data, rows, columns, stride};
  }
};

// Returns a vector as a matrix of one row.
template <typename T>
Matrix<T> RowOf(T* values, size_t count) {
  return {values, 1, count, count};
}

// The larger pack of two types, of at most kPackBytes in the smaller one.
template <typename T, typename U>
inline constexpr size_t kPackOfBoth = kPackOf<T> > kPackOf<U> ? kPackOf<T> : kPackOf<U>;

// Returns whether all matrices have packs of N.
template <size_t N, typename... Matrices>
bool AllPack(const Matrices&... matrices) {
  return (matrices.template Packs<N>() && ...);
}

// A kernel for cells that also runs for kPack adjacent columns of a row: it has kPack, Packs() and
// template <size_t N> Run(row, column), with N = 1 or, if Packs(), kPack.
template <typename Kernel>
concept PackKernel = requires(const Kernel& kernel) {
  { Kernel::kPack } -> std::convertible_to<size_t>;
  { kernel.Packs() } -> std::same_as<bool>;
};

// Runs N columns, or those left of the row.
template <size_t N, typename Kernel>
SIMURGH_HOST_DEVICE void RunPack(const Kernel& kernel, size_t row, size_t column, size_t columns) {
  if (column + N <= columns) {
    kernel.template Run<N>(row, column);
  } else {
    for (; column < columns; ++column) kernel.template Run<1>(row, column);
  }
}

}  // namespace simurgh::cuda
