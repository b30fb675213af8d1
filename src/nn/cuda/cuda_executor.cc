#include "nn/cuda/cuda_executor.h"

#include <utility>

#include <nvtx3/nvToolsExt.h>

#include "absl/strings/str_cat.h"

namespace simurgh::cuda {
namespace {

// Older devices have no bf16, and kernels are not built for them.
constexpr int kLeastMajor = 8;

// Captured pieces of work that are kept; shapes beyond are enqueued each time.
constexpr size_t kMaxGraphs = 64;

}  // namespace

StatusOr<std::string> CudaExecutor::FindDevice() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    return absl::NotFoundError("the machine has no CUDA driver, or one older than CUDA 13's");
  }
  if (error != cudaSuccess) return absl::NotFoundError(cudaGetErrorString(error));
  if (count == 0) return absl::NotFoundError("no CUDA device");
  cudaDeviceProp properties{};
  SIMURGH_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, 0), "properties"));
  if (properties.major < kLeastMajor) {
    return absl::NotFoundError(absl::StrCat(properties.name, " has compute capability ",
                                            properties.major, ".", properties.minor,
                                            ", needed is 8.0"));
  }
  SIMURGH_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(0), "cudaSetDevice"));
  return std::string(properties.name);
}

ProfileRange::ProfileRange(const char* name) { nvtxRangePushA(name); }
ProfileRange::~ProfileRange() { nvtxRangePop(); }

StatusOr<std::unique_ptr<CudaExecutor>> CudaExecutor::Create(const Options& options) {
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(options));
  SIMURGH_ASSIGN_OR_RETURN(executor->device_name_, FindDevice());
  SIMURGH_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&executor->stream_, cudaStreamNonBlocking), "stream"));
  SIMURGH_ASSIGN_OR_RETURN(executor->library_, GemmLibrary::Create(options.precision));
  return executor;
}

CudaExecutor::~CudaExecutor() {
  if (stream_ == nullptr) return;
  cudaStreamSynchronize(stream_);
  ForgetRuns();
  library_.reset();
  cudaStreamDestroy(stream_);
}

DeviceMemory CudaExecutor::AllocateDevice(size_t bytes) {
  void* block = nullptr;
  if (cudaMalloc(&block, std::max<size_t>(bytes, 1)) != cudaSuccess) {
    cudaGetLastError();  // Told by the null.
    return NoMemory();
  }
  if (options_.poison) Note(cudaMemsetAsync(block, 0xff, bytes, stream_), "memset");
  return {static_cast<std::byte*>(block), [](std::byte* memory) { cudaFree(memory); }};
}

DeviceMemory CudaExecutor::AllocatePinned(size_t bytes) {
  void* block = nullptr;
  if (cudaMallocHost(&block, std::max<size_t>(bytes, 1)) != cudaSuccess) {
    cudaGetLastError();
    return NoMemory();
  }
  return {static_cast<std::byte*>(block), [](std::byte* memory) { cudaFreeHost(memory); }};
}

void CudaExecutor::ToDevice(void* device, const void* host, size_t bytes) {
  Note(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_), "copy to device");
}

void CudaExecutor::ToHost(void* host, const void* device, size_t bytes) {
  Note(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_), "copy to host");
}

void CudaExecutor::Zero(void* device, size_t bytes) {
  Note(cudaMemsetAsync(device, 0, bytes, stream_), "memset");
}

Status CudaExecutor::Synchronize() {
  Note(cudaStreamSynchronize(stream_), "a kernel or copy");
  return std::exchange(error_, absl::OkStatus());
}

CudaExecutor::RunMode CudaExecutor::BeginRun(const Work& work) {
  if (!options_.graphs) return RunMode::kEnqueue;
  const auto found = graphs_.find(work);
  if (found == graphs_.end()) {
    if (graphs_.size() < kMaxGraphs) graphs_.emplace(work, nullptr);
    return RunMode::kEnqueue;
  }
  if (found->second == nullptr) {
    const cudaError_t error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
    Note(error, "begin of capture");
    return error == cudaSuccess ? RunMode::kCapture : RunMode::kEnqueue;
  }
  Note(cudaGraphLaunch(found->second, stream_), "launch of a graph");
  return RunMode::kLaunched;
}

void CudaExecutor::EndCapture(const Work& work) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launchable = nullptr;
  cudaError_t error = cudaStreamEndCapture(stream_, &graph);
  if (error == cudaSuccess) error = cudaGraphInstantiate(&launchable, graph, 0);
  if (graph != nullptr) cudaGraphDestroy(graph);
  Note(error, "capture");
  if (error != cudaSuccess) return;
  graphs_[work] = launchable;
  Note(cudaGraphLaunch(launchable, stream_), "launch of a graph");
}

void CudaExecutor::ForgetRuns() {
  Note(cudaStreamSynchronize(stream_), "a kernel or copy");  // None is to be running.
  for (const auto& [work, graph] : graphs_) {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }
  graphs_.clear();
}

}  // namespace simurgh::cuda
