#include "bench/micro/nn_cuda/copies.h"

#include "bench/micro/nn_cuda/random_memory.h"
#include "bench/micro/nn_cuda/stopwatch.h"

namespace simurgh::bench {

StatusOr<CopyRates> MeasureCopies() {
  constexpr size_t kBytes = size_t{1} << 30;
  constexpr size_t kRepeats = 20;
  Stopwatch watch;
  SIMURGH_RETURN_IF_ERROR(watch.Start());
  SIMURGH_ASSIGN_OR_RETURN(const auto from, RandomMemory<float>(kBytes / sizeof(float)));
  SIMURGH_ASSIGN_OR_RETURN(const auto to, RandomMemory<float>(kBytes / sizeof(float)));
  void* pinned = nullptr;
  SIMURGH_RETURN_IF_ERROR(cuda::CudaStatus(cudaMallocHost(&pinned, kBytes), "pinned memory"));
  const cuda::DeviceMemory host(static_cast<std::byte*>(pinned),
                                [](std::byte* memory) { cudaFreeHost(memory); });
  const auto rate = [&](void* target, const void* source) -> StatusOr<double> {
    SIMURGH_ASSIGN_OR_RETURN(const double ms, watch.Time(kRepeats, [&] {
      return cuda::CudaStatus(
          cudaMemcpyAsync(target, source, kBytes, cudaMemcpyDefault, watch.stream()), "copy");
    }));
    return static_cast<double>(kBytes) / ms / 1e6;
  };
  CopyRates rates;
  SIMURGH_ASSIGN_OR_RETURN(const double on_device, rate(to.get(), from.get()));
  rates.on_device = 2 * on_device;
  SIMURGH_ASSIGN_OR_RETURN(rates.to_host, rate(host.get(), from.get()));
  SIMURGH_ASSIGN_OR_RETURN(rates.to_device, rate(to.get(), host.get()));
  return rates;
}

}  // namespace simurgh::bench
