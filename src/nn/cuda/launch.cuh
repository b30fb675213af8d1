#pragma once

#include <algorithm>
#include <cstddef>

#include "nn/cuda/cuda_executor.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"

// Kernel launches of CudaExecutor, for networks.cu only: nvcc is slow. Tests and benches link the
// launches that it has.
namespace simurgh::cuda {

inline constexpr unsigned kBlockThreads = 256;
inline constexpr unsigned kWarps = kBlockThreads / kSumLanes;

// Blocks that fill the device, at most a grid's height; threads loop over the remaining elements.
inline size_t FullGrid() {
  constexpr int kBlocksPerProcessor = 2048 / kBlockThreads;
  static const size_t blocks = [] {
    int device = 0;
    int processors = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    return static_cast<size_t>(std::clamp(processors, 1, 1024) * kBlocksPerProcessor);
  }();
  return blocks;
}

template <typename Kernel>
__global__ void __launch_bounds__(kBlockThreads, 4) RunEach(size_t count, Kernel kernel) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) kernel(i);
}

// N: columns per thread. Eight need more registers.
template <size_t N, typename Kernel>
__global__ void __launch_bounds__(kBlockThreads, N > 4 ? 3 : 4)
    RunEachCell(size_t rows, size_t columns, Kernel kernel) {
  const size_t row_step = size_t{gridDim.y} * blockDim.y;
  const size_t column_step = size_t{gridDim.x} * blockDim.x * N;
  for (size_t row = size_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows; row += row_step) {
    for (size_t column = (size_t{blockIdx.x} * blockDim.x + threadIdx.x) * N; column < columns;
         column += column_step) {
      if constexpr (PackKernel<Kernel>) {
        RunPack<N>(kernel, row, column, columns);
      } else {
        kernel(row, column);
      }
    }
  }
}

// A warp takes `rows` adjacent indices, so that Finish runs in as many threads.
template <typename Kernel>
__global__ void __launch_bounds__(kBlockThreads, 4)
    RunEachSum(size_t count, unsigned rows, Kernel kernel) {
  const unsigned lane = threadIdx.x % kSumLanes;
  const size_t warp = (size_t{blockIdx.x} * blockDim.x + threadIdx.x) / kSumLanes;
  const size_t step = size_t{gridDim.x} * kWarps * rows;
  for (size_t first = warp * rows; first < count; first += step) {
    const auto here = static_cast<unsigned>(min(size_t{rows}, count - first));
    float own = 0.0F;
    for (unsigned row = 0; row < here; ++row) {
      float sum = kernel.Lane(first + row, lane);
      for (unsigned distance = kSumLanes / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(~0U, sum, distance);
      }
      if (lane == row) own = sum;
    }
    if (lane < here) kernel.Finish(first + lane, own);
  }
}

template <typename Kernel>
__global__ void __launch_bounds__(kBlockThreads, 2) RunEachBlock(size_t count, Kernel kernel) {
  extern __shared__ __align__(kPackBytes) std::byte block[];
  for (size_t i = blockIdx.x; i < count; i += gridDim.x) {
    for (size_t k = threadIdx.x; k < kernel.fills(); k += blockDim.x) kernel.Fill(i, k, block);
    __syncthreads();
    for (size_t k = threadIdx.x; k < kernel.cells(); k += blockDim.x) kernel.Cell(i, k, block);
    __syncthreads();
  }
}

inline unsigned GridSize(size_t count, unsigned block, size_t limit) {
  return static_cast<unsigned>(std::min((count + block - 1) / block, limit));
}

template <typename Kernel>
void CudaExecutor::ForEach(size_t count, const Kernel& kernel) {
  if (count == 0) return;
  RunEach<<<GridSize(count, kBlockThreads, FullGrid()), kBlockThreads, 0, current_>>>(count,
                                                                                      kernel);
  Note(cudaGetLastError(), "launch of a kernel");
}

template <typename Kernel>
void CudaExecutor::ForEachCell(size_t rows, size_t columns, const Kernel& kernel) {
  if (rows == 0 || columns == 0) return;
  size_t pack = 1;
  if constexpr (PackKernel<Kernel>) pack = kernel.Packs() ? Kernel::kPack : 1;
  const size_t threads = (columns + pack - 1) / pack;
  // The block's width covers the columns, up to a whole block.
  unsigned width = 1;
  while (width < kBlockThreads && width < threads) width *= 2;
  const unsigned height = kBlockThreads / width;
  const unsigned across = GridSize(threads, width, FullGrid());
  const dim3 grid(across, GridSize(rows, height, std::max<size_t>(FullGrid() / across, 1)));
  const dim3 block(width, height);
  if constexpr (PackKernel<Kernel>) {
    if (pack > 1) {
      RunEachCell<Kernel::kPack><<<grid, block, 0, current_>>>(rows, columns, kernel);
      return Note(cudaGetLastError(), "launch of a kernel");
    }
  }
  RunEachCell<1><<<grid, block, 0, current_>>>(rows, columns, kernel);
  Note(cudaGetLastError(), "launch of a kernel");
}

template <typename Kernel>
void CudaExecutor::ForEachSum(size_t count, const Kernel& kernel) {
  if (count == 0) return;
  const size_t warps = FullGrid() * kWarps;
  const auto rows = static_cast<unsigned>(std::clamp<size_t>(count / warps, 1, kSumLanes));
  const unsigned grid = GridSize(count, rows * kWarps, FullGrid());
  RunEachSum<<<grid, kBlockThreads, 0, current_>>>(count, rows, kernel);
  Note(cudaGetLastError(), "launch of a kernel");
}

template <typename Kernel>
void CudaExecutor::ForEachBlock(size_t count, const Kernel& kernel) {
  if (count == 0) return;
  RunEachBlock<<<GridSize(count, 1, FullGrid()), kBlockThreads, kernel.bytes(), current_>>>(count,
                                                                                            kernel);
  Note(cudaGetLastError(), "launch of a kernel");
}

}  // namespace simurgh::cuda
