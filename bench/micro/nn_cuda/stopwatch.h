#pragma once

#include <array>
#include <functional>

#include <cuda_runtime.h>

#include "bench/micro/nn_cuda/steps.h"
#include "nn/cuda/cuda_error.h"
#include "nn/cuda/cuda_executor.h"

namespace simurgh::bench {

// Measures work on a stream of device 0.
class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream = nullptr) : stream_(stream) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    for (cudaEvent_t event : events_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  Status Start() {
    SIMURGH_RETURN_IF_ERROR(cuda::CudaExecutor::FindDevice(0).status());
    for (cudaEvent_t& event : events_) {
      SIMURGH_RETURN_IF_ERROR(cuda::CudaStatus(cudaEventCreate(&event), "event"));
    }
    return absl::OkStatus();
  }
  cudaStream_t stream() const { return stream_; }

  // Milliseconds of the work that `enqueue` enqueues on the stream, of `repeats` in a row: their
  // launches overlap with work before. The median of several rows, of which the first warms up.
  StatusOr<double> Time(size_t repeats, const std::function<Status()>& enqueue) {
    std::vector<double> taken;
    for (size_t row = 0; row < kRows + 1; ++row) {
      SIMURGH_RETURN_IF_ERROR(cuda::CudaStatus(cudaEventRecord(events_[0], stream_), "event"));
      for (size_t i = 0; i < repeats; ++i) SIMURGH_RETURN_IF_ERROR(enqueue());
      SIMURGH_RETURN_IF_ERROR(cuda::CudaStatus(cudaEventRecord(events_[1], stream_), "event"));
      SIMURGH_RETURN_IF_ERROR(cuda::CudaStatus(cudaEventSynchronize(events_[1]), "measured work"));
      float ms = 0;
      SIMURGH_RETURN_IF_ERROR(
          cuda::CudaStatus(cudaEventElapsedTime(&ms, events_[0], events_[1]), "event"));
      if (row > 0) taken.push_back(ms / static_cast<double>(repeats));
    }
    return Median(taken);
  }

 private:
  cudaStream_t stream_;
  std::array<cudaEvent_t, 2> events_{};
};

}  // namespace simurgh::bench
