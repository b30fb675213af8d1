#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "base/check.h"

namespace simurgh {

// A view of a row-major matrix. The stride may exceed the number of columns, so a block of columns
// is a view too. Pass by value.
//
// Lifetime: the caller keeps the elements alive and in place.
template <typename T>
class MatrixView {
 public:
  MatrixView() = default;
  MatrixView(T* data, size_t rows, size_t columns, size_t stride)
      : data_(data), rows_(rows), columns_(columns), stride_(stride) {
    SIMURGH_CHECK_LE(columns, stride);
  }
  MatrixView(T* data, size_t rows, size_t columns) : MatrixView(data, rows, columns, columns) {}

  // Converts a mutable view to a const view.
  template <typename U>
    requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>)
  MatrixView(MatrixView<U> other)  // NOLINT(google-explicit-constructor)
      : MatrixView(other.data(), other.rows(), other.columns(), other.stride()) {}

  T* data() const { return data_; }
  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }
  size_t stride() const { return stride_; }  // Distance between rows, in elements.

  std::span<T> row(size_t index) const { return {data_ + index * stride_, columns_}; }
  T& operator()(size_t row, size_t column) const { return data_[row * stride_ + column]; }

  // All elements in order. Requires a stride of columns(), or at most one row.
  std::span<T> flat() const { return {data_, rows_ * columns_}; }

  // Columns [first, first + count).
  MatrixView Columns(size_t first, size_t count) const {
    SIMURGH_CHECK_LE(first + count, columns_);
    return MatrixView(rows_ == 0 ? data_ : data_ + first, rows_, count, stride_);
  }

  // Rows [first, first + count).
  MatrixView Rows(size_t first, size_t count) const {
    SIMURGH_CHECK_LE(first + count, rows_);
    return MatrixView(data_ + first * stride_, count, columns_, stride_);
  }

 private:
  T* data_ = nullptr;
  size_t rows_ = 0;
  size_t columns_ = 0;
  size_t stride_ = 0;
};

}  // namespace simurgh
