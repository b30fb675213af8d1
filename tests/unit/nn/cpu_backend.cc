#include "nn/cpu/matmul.h"
#include "tests/unit/nn/test_backend.h"

namespace simurgh::testing {

StatusOr<std::unique_ptr<DenseNetwork>> CreateTestNetwork(const ModelConfig& model,
                                                          const DenseNetworkOptions& options,
                                                          bool /*replays*/) {
  return CreateCpuNetwork(model, options);
}

bool BackendHas(ComputePrecision precision) {
  if (precision != ComputePrecision::kBf16) return precision == ComputePrecision::kF32;
  // oneDNN emulates bf16 on AVX-512, but has no products of bf16 for AVX2.
  const float one = 1.0F;
  float c = 0;
  return cpu::MultiplyBf16({{&one, 1, 1}}, {{&one, 1, 1}}, 1, 0.0F, {&c, 1, 1}).ok();
}

}  // namespace simurgh::testing
