#include "tests/unit/nn/cuda/coding_runner.h"
#include "tests/unit/nn/cuda/host_executor.h"
#include "tests/unit/nn/cuda/kernel_runner.h"
#include "tests/unit/nn/cuda/pooling_runner.h"

namespace simurgh::testing {

KernelResult RunKernel(const KernelRun& run) {
  HostExecutor executor({.fuse = run.path != ProductPath::kPlain,
                         .fuse_masks = run.path != ProductPath::kWithoutMask,
                         .takes = run.path != ProductPath::kKernel});
  return RunKernelOn(executor, run);
}

std::vector<std::byte> RunEncode(const VectorCodec& code, float factor, const RoundingKey& key,
                                 const std::vector<float>& values) {
  HostExecutor executor({});
  return CodingRunner(executor, code).Encode(factor, key, values);
}

std::vector<float> RunDecode(const VectorCodec& code, const std::vector<std::byte>& encoded,
                             size_t first_column, size_t width, size_t columns) {
  HostExecutor executor({});
  return CodingRunner(executor, code).Decode(encoded, first_column, width, columns);
}

std::unique_ptr<RowPooler> NewTestPooler(const EmbeddingWire& wire) {
  static HostExecutor executor({});
  return std::make_unique<PoolingRunner<HostExecutor>>(executor, wire);
}

}  // namespace simurgh::testing
