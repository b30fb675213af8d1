#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "config/table_config.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// A view of a row-major matrix in one of the precisions of rows and gradients. Byte is std::byte,
// or const std::byte for reading. Passed by value.
//
// Lifetime: the bytes must outlive the view.
template <typename Byte>
class EncodedMatrix {
 public:
  using Float = std::conditional_t<std::is_const_v<Byte>, const float, float>;

  EncodedMatrix() = default;
  // data: contiguous rows, aligned to the size of a number.
  EncodedMatrix(Byte* data, RowPrecision precision, size_t rows, size_t columns)
      : data_(data),
        precision_(precision),
        rows_(rows),
        columns_(columns),
        stride_bytes_(columns * SizeOf(precision)) {
    SIMURGH_CHECK_EQ(reinterpret_cast<uintptr_t>(data) % SizeOf(precision), uintptr_t{0});
  }
  EncodedMatrix(Float* data, size_t rows, size_t columns)
      : EncodedMatrix(MatrixView<Float>(data, rows, columns)) {}
  template <typename U>
    requires(std::is_convertible_v<MatrixView<U>, MatrixView<Float>>)
  EncodedMatrix(MatrixView<U> matrix)  // NOLINT(google-explicit-constructor)
      : data_(reinterpret_cast<Byte*>(matrix.data())),
        rows_(matrix.rows()),
        columns_(matrix.columns()),
        stride_bytes_(matrix.stride() * sizeof(float)) {}

  RowPrecision precision() const { return precision_; }
  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }
  size_t row_bytes() const { return columns_ * SizeOf(precision_); }
  Byte* row(size_t index) const { return data_ + index * stride_bytes_; }

  // Rows [first, first + count).
  EncodedMatrix Rows(size_t first, size_t count) const {
    SIMURGH_CHECK_LE(first + count, rows_);
    EncodedMatrix part = *this;
    part.data_ = row(first);
    part.rows_ = count;
    return part;
  }

 private:
  Byte* data_ = nullptr;
  RowPrecision precision_ = RowPrecision::kF32;
  size_t rows_ = 0;
  size_t columns_ = 0;
  size_t stride_bytes_ = 0;
};

using EncodedRows = EncodedMatrix<std::byte>;             // Writable.
using EncodedGradients = EncodedMatrix<const std::byte>;  // Read-only.

// Converts an encoded row to f32, exactly. to: (D)
void WidenRow(RowPrecision precision, const std::byte* row, std::span<float> to);

}  // namespace simurgh
