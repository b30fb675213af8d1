#include "base/check.h"
#include "nn/cuda/cuda_executor.h"
#include "tests/unit/nn/cuda/coding_runner.h"
#include "tests/unit/nn/cuda/kernel_runner.h"
#include "tests/unit/nn/cuda/pooling_runner.h"

namespace simurgh::testing {
namespace {

cuda::CudaExecutor& TestExecutor() {
  static const auto executor = cuda::CudaExecutor::Create({});
  SIMURGH_CHECK(executor.ok()) << executor.status().ToString();
  return **executor;
}

}  // namespace

KernelResult RunKernel(const KernelRun& run) { return RunKernelOn(TestExecutor(), run); }

std::vector<std::byte> RunEncode(const VectorCodec& code, float factor, const RoundingKey& key,
                                 const std::vector<float>& values) {
  return CodingRunner(TestExecutor(), code).Encode(factor, key, values);
}

std::vector<float> RunDecode(const VectorCodec& code, const std::vector<std::byte>& encoded,
                             size_t first_column, size_t width, size_t columns) {
  return CodingRunner(TestExecutor(), code).Decode(encoded, first_column, width, columns);
}

std::unique_ptr<RowPooler> NewTestPooler(const EmbeddingWire& wire) {
  return std::make_unique<PoolingRunner<cuda::CudaExecutor>>(TestExecutor(), wire);
}

}  // namespace simurgh::testing
