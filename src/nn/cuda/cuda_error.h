#pragma once

#include <cuda_runtime.h>

#include "absl/strings/str_cat.h"

#include "base/status.h"
#include "nn/cuda/work.h"

namespace simurgh::cuda {

// what: the call that failed.
inline Status CudaStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat("CUDA: ", what, ": ", cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(message)
                                            : absl::InternalError(message);
}

}  // namespace simurgh::cuda
