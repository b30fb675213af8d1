#include <string>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "nn/cpu/matmul.h"
#include "nn/dense_network.h"
#if defined(SIMURGH_CUDA)
#include "nn/cuda/cuda_network.h"
#endif

namespace simurgh {
namespace {

#if defined(SIMURGH_CUDA)
// Indexed by ComputePrecision.
constexpr const char* kPrecisionNames[] = {"f32", "tf32", "bf16", "f16"};
#endif

// Creates the network on a CUDA device. Errors: NOT_FOUND without a usable device.
StatusOr<std::unique_ptr<DenseNetwork>> CreateOnDevice(const ModelConfig& model,
                                                       const DenseNetworkOptions& options) {
#if defined(SIMURGH_CUDA)
  SIMURGH_ASSIGN_OR_RETURN(cuda::CudaNetwork created, cuda::CreateCudaNetwork(model, options));
  spdlog::info("dense network: on {}, precision={}", created.device,
               kPrecisionNames[static_cast<size_t>(options.precision)]);
  return std::move(created.network);
#else
  return absl::NotFoundError(
      "this program was built without CUDA; build the preset `cuda` with nvcc installed");
#endif
}

}  // namespace

StatusOr<std::unique_ptr<DenseNetwork>> CreateNetwork(const ModelConfig& model,
                                                      const DenseNetworkOptions& options) {
  if (options.device != ComputeDevice::kCpu) {
    auto network = CreateOnDevice(model, options);
    if (!absl::IsNotFound(network.status())) return network;
    const std::string reason(network.status().message());
    if (options.device == ComputeDevice::kCuda) {
      spdlog::warn("dense network: no CUDA device, using the CPU: {}", reason);
    } else {
      spdlog::info("dense network: on the CPU: {}", reason);
    }
  }
  DenseNetworkOptions on_cpu = options;
  if (options.precision == ComputePrecision::kBf16 && !cpu::HasBf16Products()) {
    spdlog::warn(
        "dense network: using f32, because the CPU has no bf16 instructions (AVX512_BF16 or AMX)");
    on_cpu.precision = ComputePrecision::kF32;
  }
  return CreateCpuNetwork(model, on_cpu);
}

}  // namespace simurgh
