#include "nn/cuda/launch.cuh"
#include "simurgh/base/check.h"
#include "tests/unit/nn/cuda/kernel_runner.h"

namespace simurgh::testing {

KernelResult RunKernel(const KernelRun& run) {
  static const auto executor = cuda::CudaExecutor::Create({});
  SIMURGH_CHECK(executor.ok()) << executor.status().ToString();
  return RunKernelOn(**executor, run);
}

}  // namespace simurgh::testing
