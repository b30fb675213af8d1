#pragma once

#include <algorithm>
#include <cstddef>

#include "nn/cuda/cuda_executor.h"

// Kernel launches of CudaExecutor. Include in .cu files only.
namespace simurgh::cuda {

inline constexpr unsigned kBlockThreads = 256;
// Grid limits; threads loop over the remaining elements.
inline constexpr size_t kMaxGridX = 1U << 20;
inline constexpr size_t kMaxGridY = 65'535;

template <typename Kernel>
__global__ void __launch_bounds__(kBlockThreads) RunEach(size_t count, Kernel kernel) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) kernel(i);
}

template <typename Kernel>
__global__ void __launch_bounds__(kBlockThreads)
    RunEachCell(size_t rows, size_t columns, Kernel kernel) {
  const size_t row_step = size_t{gridDim.y} * blockDim.y;
  const size_t column_step = size_t{gridDim.x} * blockDim.x;
  for (size_t row = size_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows; row += row_step) {
    for (size_t column = size_t{blockIdx.x} * blockDim.x + threadIdx.x; column < columns;
         column += column_step) {
      kernel(row, column);
    }
  }
}

inline unsigned GridSize(size_t count, unsigned block, size_t limit) {
  return static_cast<unsigned>(std::min((count + block - 1) / block, limit));
}

template <typename Kernel>
void CudaExecutor::ForEach(size_t count, const Kernel& kernel) {
  if (count == 0) return;
  RunEach<<<GridSize(count, kBlockThreads, kMaxGridX), kBlockThreads, 0, current_>>>(count, kernel);
  Note(cudaGetLastError(), "launch of a kernel");
}

template <typename Kernel>
void CudaExecutor::ForEachCell(size_t rows, size_t columns, const Kernel& kernel) {
  if (rows == 0 || columns == 0) return;
  // The block's width covers the columns, up to a whole block.
  unsigned width = 1;
  while (width < kBlockThreads && width < columns) width *= 2;
  const unsigned height = kBlockThreads / width;
  const dim3 grid(GridSize(columns, width, kMaxGridX), GridSize(rows, height, kMaxGridY));
  RunEachCell<<<grid, dim3(width, height), 0, current_>>>(rows, columns, kernel);
  Note(cudaGetLastError(), "launch of a kernel");
}

}  // namespace simurgh::cuda
