#pragma once

#include <algorithm>
#include <vector>

#include <cuda_runtime.h>

#include "base/random.h"
#include "base/status.h"
#include "nn/cuda/cuda_error.h"
#include "nn/cuda/float16.h"

namespace simurgh::bench {

inline cuda::DeviceMemory AllocateOnDevice(size_t bytes) {
  void* block = nullptr;
  if (cudaMalloc(&block, bytes) != cudaSuccess) return cuda::NoMemory();
  return {static_cast<std::byte*>(block), [](std::byte* memory) { cudaFree(memory); }};
}

// A repeated pattern of random values between -1 and 1; products of zeros would be faster.
template <typename T>
StatusOr<cuda::DeviceMemory> RandomMemory(size_t count) {
  Random random(7);
  std::vector<T> pattern(std::min<size_t>(count, size_t{1} << 20));
  for (T& value : pattern) {
    cuda::Assign(value, static_cast<float>(2.0 * random.Uniform() - 1.0));
  }
  cuda::DeviceMemory memory = AllocateOnDevice(count * sizeof(T));
  if (memory == nullptr) return absl::ResourceExhaustedError("no memory on the device");
  for (size_t first = 0; first < count; first += pattern.size()) {
    const size_t part = std::min(pattern.size(), count - first);
    SIMURGH_RETURN_IF_ERROR(
        cuda::CudaStatus(cudaMemcpy(memory.get() + first * sizeof(T), pattern.data(),
                                    part * sizeof(T), cudaMemcpyHostToDevice),
                         "copy"));
  }
  return memory;
}

}  // namespace simurgh::bench
