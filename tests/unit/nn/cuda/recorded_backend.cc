// The CUDA backend's network on the CUDA executor, with recording_runtime.h for the device.

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/cuda/cuda_executor.h"
#include "nn/cuda/device_network.h"
#include "nn/cuda/float16.h"
#include "nn/model_plan.h"
#include "tests/unit/nn/cuda/fake_cublas_lt.h"
#include "tests/unit/nn/cuda/host_executor.h"
#include "tests/unit/nn/cuda/recording_runtime.h"
#include "tests/unit/nn/test_backend.h"

namespace simurgh::testing {

// Calls kernels of the calling thread.
HostExecutor& Loops() {
  thread_local HostExecutor loops({});
  return loops;
}

// The pointers among a kernel's members. The bytes between members may hold any address.
template <typename Kernel>
std::vector<const void*> PointersOf(const Kernel& kernel) {
  std::vector<const void*> found;
  const auto* const begin = reinterpret_cast<const std::byte*>(&kernel);
  const auto add = [&](const auto& value) {
    if constexpr (std::is_pointer_v<std::decay_t<decltype(value)>>) {
      const auto* const at = reinterpret_cast<const std::byte*>(value);
      const void* address = at;
      // A member that is no plain struct; a span begins with its pointer.
      if (begin <= at && at + sizeof(address) <= begin + sizeof(kernel)) {
        std::memcpy(static_cast<void*>(&address), at, sizeof(address));
      }
      found.push_back(address);
    }
  };
  // Calls it with a format and the values of each member.
  const auto visit = [&](const char* /*format*/, const auto&... values) {
    (add(values), ...);
    return 0;
  };
  __builtin_dump_struct(&kernel, visit);
  return found;
}

}  // namespace simurgh::testing

// Launches of CudaExecutor, in place of launch.cuh.
namespace simurgh::cuda {

template <typename Kernel>
void CudaExecutor::ForEach(size_t count, const Kernel& kernel) {
  if (count == 0) return;
  testing::recording::Launch(current_, testing::PointersOf(kernel),
                             [=] { testing::Loops().ForEach(count, kernel); });
  Note(cudaGetLastError(), "launch of a kernel");
}

template <typename Kernel>
void CudaExecutor::ForEachCell(size_t rows, size_t columns, const Kernel& kernel) {
  if (rows == 0 || columns == 0) return;
  testing::recording::Launch(current_, testing::PointersOf(kernel),
                             [=] { testing::Loops().ForEachCell(rows, columns, kernel); });
  Note(cudaGetLastError(), "launch of a kernel");
}

template <typename Kernel>
void CudaExecutor::ForEachSum(size_t count, const Kernel& kernel) {
  if (count == 0) return;
  testing::recording::Launch(current_, testing::PointersOf(kernel),
                             [=] { testing::Loops().ForEachSum(count, kernel); });
  Note(cudaGetLastError(), "launch of a kernel");
}

template <typename Kernel>
void CudaExecutor::ForEachBlock(size_t count, const Kernel& kernel) {
  if (count == 0) return;
  testing::recording::Launch(current_, testing::PointersOf(kernel),
                             [=] { testing::Loops().ForEachBlock(count, kernel); });
  Note(cudaGetLastError(), "launch of a kernel");
}

}  // namespace simurgh::cuda

namespace simurgh::testing {
namespace {

// The calling thread's product.
thread_local cudaStream_t stream_of_product = nullptr;
thread_local std::span<const void* const> addresses_of_product;

// Products of the calling thread's networks, which run as launches.
struct Products {
  FakeCublasLt fake{{.enqueue = [](std::function<void()> work) {
    recording::Launch(stream_of_product, addresses_of_product, std::move(work));
  }}};
  cuda::CublasLt functions;
};

thread_local Products products;

cublasStatus_t Matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                      const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                      cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                      cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                      const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                      cudaStream_t stream) {
  const void* const addresses[] = {a, b, c, d};
  stream_of_product = stream;
  addresses_of_product = addresses;
  return products.fake.functions().matmul(handle, desc, alpha, a, a_layout, b, b_layout, beta, c,
                                          c_layout, d, d_layout, algorithm, workspace, bytes,
                                          stream);
}

}  // namespace

StatusOr<std::unique_ptr<DenseNetwork>> CreateTestNetwork(const ModelConfig& model,
                                                          const DenseNetworkOptions& options,
                                                          bool replays) {
  SIMURGH_ASSIGN_OR_RETURN(ModelPlan plan, PlanModel(model, options.inputs));
  Loops();  // Creates its products before the network does.
  products.functions = products.fake.functions();
  products.functions.matmul = &Matmul;
  SIMURGH_ASSIGN_OR_RETURN(
      auto executor, cuda::CudaExecutor::Create({.device = static_cast<int>(options.cuda_device),
                                                 .precision = options.precision,
                                                 .graphs = replays,
                                                 .poison = true,
                                                 .products = &products.functions}));
  const std::vector<TaskConfig> tasks = TasksOf(model);
  switch (options.precision) {
    case ComputePrecision::kBf16:
      return cuda::DeviceNetwork<cuda::CudaExecutor, cuda::Bfloat16>::Create(
          std::move(plan), tasks, options, std::move(executor));
    case ComputePrecision::kF16:
      return cuda::DeviceNetwork<cuda::CudaExecutor, cuda::Float16>::Create(
          std::move(plan), tasks, options, std::move(executor));
    case ComputePrecision::kF32:
    case ComputePrecision::kTf32:
      break;
  }
  return cuda::DeviceNetwork<cuda::CudaExecutor, float>::Create(std::move(plan), tasks, options,
                                                                std::move(executor));
}

bool BackendHas(ComputePrecision /*precision*/) { return true; }

}  // namespace simurgh::testing
