#pragma once

#include <functional>
#include <vector>

#include <cuda_runtime.h>

#include "bench/micro/nn_cuda/steps.h"
#include "nn/cuda/cuda_error.h"
#include "nn/cuda/cuda_executor.h"

namespace simurgh::bench {

// Measures work on a stream of device 0.
class Stopwatch {
 public:
  Stopwatch() = default;
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Status Start() {
    SIMURGH_RETURN_IF_ERROR(cuda::CudaExecutor::FindDevice(0).status());
    SIMURGH_RETURN_IF_ERROR(cuda::CudaStatus(cudaStreamCreate(&stream_), "stream"));
    SIMURGH_RETURN_IF_ERROR(cuda::CudaStatus(cudaEventCreate(&begin_), "event"));
    return cuda::CudaStatus(cudaEventCreate(&end_), "event");
  }
  cudaStream_t stream() const { return stream_; }

  // Median milliseconds of the work that `enqueue` enqueues on the stream.
  StatusOr<double> Time(size_t repeats, const std::function<Status()>& enqueue) {
    std::vector<double> taken;
    for (size_t i = 0; i < repeats + kUncounted; ++i) {
      SIMURGH_RETURN_IF_ERROR(cuda::CudaStatus(cudaEventRecord(begin_, stream_), "event"));
      SIMURGH_RETURN_IF_ERROR(enqueue());
      SIMURGH_RETURN_IF_ERROR(cuda::CudaStatus(cudaEventRecord(end_, stream_), "event"));
      SIMURGH_RETURN_IF_ERROR(cuda::CudaStatus(cudaEventSynchronize(end_), "measured work"));
      float ms = 0;
      SIMURGH_RETURN_IF_ERROR(cuda::CudaStatus(cudaEventElapsedTime(&ms, begin_, end_), "event"));
      if (i >= kUncounted) taken.push_back(ms);
    }
    return Median(taken);
  }

 private:
  static constexpr size_t kUncounted = 3;  // Warm-up calls.

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace simurgh::bench
