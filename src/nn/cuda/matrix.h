#pragma once

#include <cstddef>
#include <type_traits>

#include "nn/host_device.h"

namespace simurgh::cuda {

// A row-major matrix in device memory. T: float, Bfloat16 or Float16, or const.
template <typename T>
struct Matrix {
  T* data = nullptr;
  size_t rows = 0;
  size_t columns = 0;
  size_t stride = 0;  // In elements.

  SIMURGH_HOST_DEVICE T& operator()(size_t row, size_t column) const {
    return data[row * stride + column];
  }

  // Columns [first, first + count).
  Matrix Columns(size_t first, size_t count) const { return {data + first, rows, count, stride}; }

  // Converts a mutable view to a const view.
  operator Matrix<const T>() const  // NOLINT(google-explicit-constructor)
    requires(!std::is_const_v<T>)
  {
    return {data, rows, columns, stride};
  }
};

}  // namespace simurgh::cuda
