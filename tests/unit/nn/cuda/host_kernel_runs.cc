#include "tests/unit/nn/cuda/host_executor.h"
#include "tests/unit/nn/cuda/kernel_runner.h"

namespace simurgh::testing {

KernelResult RunKernel(const KernelRun& run) {
  HostExecutor executor({.fuse = run.fuse});
  return RunKernelOn(executor, run);
}

}  // namespace simurgh::testing
