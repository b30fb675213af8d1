#include "nn/cuda/cuda_executor.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <nvtx3/nvToolsExt.h>

#include "absl/strings/str_cat.h"

#include "base/log.h"

namespace simurgh::cuda {
namespace {

// Older devices have no bf16, and kernels are not built for them.
constexpr int kMinMajor = 8;

// Most repeated work that is kept. More of it displaces the least recently used.
constexpr size_t kMaxRuns = 64;

constexpr std::chrono::microseconds kCheckInterval{20};

}  // namespace

StatusOr<std::string> CudaExecutor::FindDevice(int device) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    return absl::NotFoundError("no CUDA driver, or one older than CUDA 13; install one");
  }
  if (error != cudaSuccess)
    return absl::NotFoundError(absl::StrCat(cudaGetErrorString(error), "; see nvidia-smi"));
  if (count == 0) return absl::NotFoundError("no CUDA device; see nvidia-smi");
  if (device >= count) {
    return absl::InvalidArgumentError(absl::StrCat("nn_worker.instances.N.cuda_device: ", device,
                                                   " is out of range; use 0 to ", count - 1,
                                                   ", or run fewer ranks on this machine"));
  }
  cudaDeviceProp properties{};
  SIMURGH_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, device), "properties"));
  if (properties.major < kMinMajor) {
    return absl::NotFoundError(absl::StrCat(properties.name, " has compute capability ",
                                            properties.major, ".", properties.minor,
                                            "; use a device of at least 8.0"));
  }
  SIMURGH_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device), "cudaSetDevice"));
  return std::string(properties.name);
}

ProfileRange::ProfileRange(const char* name) { nvtxRangePushA(name); }
ProfileRange::~ProfileRange() { nvtxRangePop(); }

StatusOr<std::unique_ptr<CudaExecutor>> CudaExecutor::Create(const Options& options) {
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(options));
  SIMURGH_ASSIGN_OR_RETURN(executor->device_name_, FindDevice(options.device));
  SIMURGH_RETURN_IF_ERROR(executor->CreateLanes());
  const CublasLt* lt = options.products;
  if (lt == nullptr) {
    SIMURGH_ASSIGN_OR_RETURN(lt, CublasLt::Load());
  }
  ChooseProduct choose = options.choose_product;
  if (!choose) {
    choose = [table = ProductChoices::Shipped(executor->device_name_, lt->version())](
                 const ProductKind& kind) { return table.Find(kind); };
  }
  SIMURGH_ASSIGN_OR_RETURN(
      executor->library_,
      GemmLibrary::Create(*lt, {.precision = options.precision,
                                .choose = std::move(choose),
                                .allocate = [device = executor.get()](size_t bytes) {
                                  return device->AllocateDevice(bytes);
                                }}));
  return executor;
}

Status CudaExecutor::CreateLanes() {
  for (cudaStream_t& stream : streams_) {
    SIMURGH_RETURN_IF_ERROR(
        CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"));
  }
  stream_ = current_ = StreamOf(Lane::kCompute);
  for (cudaEvent_t& event : events_) {
    SIMURGH_RETURN_IF_ERROR(
        CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event"));
  }
  return absl::OkStatus();
}

CudaExecutor::~CudaExecutor() {
  ForgetRuns();
  library_.reset();
  for (cudaEvent_t event : events_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  for (cudaStream_t stream : streams_) {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
}

DeviceMemory CudaExecutor::AllocateDevice(size_t bytes) {
  MakeCurrent();
  void* block = nullptr;
  if (cudaMalloc(&block, std::max<size_t>(bytes, 1)) != cudaSuccess) {
    cudaGetLastError();  // Clears the error.
    return NoMemory();
  }
  if (options_.poison) {
    // Other lanes may write to the memory next.
    Note(cudaMemsetAsync(block, 0xff, bytes, stream_), "memset");
    Note(cudaStreamSynchronize(stream_), "memset");
  }
  return {static_cast<std::byte*>(block), [](std::byte* memory) { cudaFree(memory); }};
}

DeviceMemory CudaExecutor::AllocatePinned(size_t bytes) const {
  void* block = nullptr;
  // Otherwise the calling thread would use device 0.
  if (cudaSetDevice(options_.device) != cudaSuccess ||
      cudaHostAlloc(&block, std::max<size_t>(bytes, 1), cudaHostAllocPortable) != cudaSuccess) {
    cudaGetLastError();
    return NoMemory();
  }
  return {static_cast<std::byte*>(block), [](std::byte* memory) { cudaFreeHost(memory); }};
}

void CudaExecutor::ToDevice(void* device, const void* host, size_t bytes) {
  Note(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, current_), "copy to device");
}

void CudaExecutor::ToHost(void* host, const void* device, size_t bytes) {
  Note(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, current_), "copy to host");
}

void CudaExecutor::Zero(void* device, size_t bytes) {
  Note(cudaMemsetAsync(device, 0, bytes, current_), "memset");
}

Status CudaExecutor::Synchronize() {
  Note(cudaStreamSynchronize(stream_), "a kernel or copy");
  return std::exchange(error_, absl::OkStatus());
}

void CudaExecutor::Drain() {
  for (cudaStream_t stream : streams_) {
    if (stream != nullptr) Note(cudaStreamSynchronize(stream), "a kernel or copy");
  }
}

Status CudaExecutor::WaitFor(const Event& event, const std::function<Status()>& check) {
  cudaEvent_t const awaited = EventOf(event);
  Status given_up = absl::OkStatus();
  while (check && given_up.ok() && cudaEventQuery(awaited) == cudaErrorNotReady) {
    given_up = check();
    std::this_thread::sleep_for(kCheckInterval);
  }
  if (!given_up.ok()) {
    cudaEventSynchronize(awaited);
    error_ = absl::OkStatus();
    return given_up;
  }
  Note(cudaEventSynchronize(awaited), "a kernel or copy");
  return std::exchange(error_, absl::OkStatus());
}

CudaExecutor::RunMode CudaExecutor::BeginRun(const Work& work) {
  if (!uses_graphs_) return RunMode::kEnqueue;
  auto found = runs_.find(work);
  if (found == runs_.end()) {
    if (runs_.size() == kMaxRuns) {
      const auto oldest =
          std::ranges::min_element(runs_, {}, [](const auto& run) { return run.second.last_use; });
      Free(oldest->second);
      runs_.erase(oldest);
    }
    runs_[work].last_use = ++uses_;
    return RunMode::kEnqueue;
  }
  found->second.last_use = ++uses_;
  if (found->second.pieces.empty()) {
    capturing_ = &*found;
    capture_error_ = cudaSuccess;
    error_before_ = error_;
    BeginPiece();
    return capturing_ == nullptr ? RunMode::kEnqueue : RunMode::kCapture;
  }
  Launch(found->second);
  return RunMode::kLaunched;
}

void CudaExecutor::BeginPiece() {
  const cudaError_t error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  if (error == cudaSuccess) {
    capturing_->second.pieces.emplace_back();
    return;
  }
  cudaGetLastError();  // Clears the error.
  if (capture_error_ == cudaSuccess) {
    // The rest of the work follows, without graphs.
    Launch(capturing_->second);
  } else {
    // The work before was lost, and the rest runs now.
    Note(error, "capture of a graph");
  }
  GiveGraphsUp(error);
}

void CudaExecutor::EndPiece() {
  cudaGraph_t graph = nullptr;
  size_t nodes = 0;
  cudaError_t error = cudaStreamEndCapture(stream_, &graph);
  if (error == cudaSuccess) error = cudaGraphGetNodes(graph, nullptr, &nodes);
  if (error == cudaSuccess && nodes > 0) {
    error = cudaGraphInstantiate(&capturing_->second.pieces.back().graph, graph, 0);
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (capture_error_ == cudaSuccess) capture_error_ = error;
}

bool CudaExecutor::EndCapture() {
  if (capturing_ == nullptr) return true;
  EndPiece();
  if (capture_error_ == cudaSuccess) {
    Launch(std::exchange(capturing_, nullptr)->second);
    return true;
  }
  error_ = std::move(error_before_);
  GiveGraphsUp(capture_error_);
  return false;
}

void CudaExecutor::GiveGraphsUp(cudaError_t error) {
  const auto run = runs_.find(std::exchange(capturing_, nullptr)->first);
  spdlog::warn("CUDA graphs: capture failed, continues without graphs: work={} error={}",
               run->first.name(), cudaGetErrorString(error));
  uses_graphs_ = false;
  Free(run->second);
  runs_.erase(run);
  cudaGetLastError();  // Clears the error.
}

void CudaExecutor::Launch(const CapturedRun& run) {
  for (const Piece& piece : run.pieces) {
    if (piece.graph != nullptr) Note(cudaGraphLaunch(piece.graph, stream_), "launch of a graph");
    if (piece.next) piece.next();
  }
}

// A running graph is freed at its end.
void CudaExecutor::Free(const CapturedRun& run) {
  for (const Piece& piece : run.pieces) {
    if (piece.graph != nullptr) cudaGraphExecDestroy(piece.graph);
  }
}

void CudaExecutor::ForgetRuns() {
  Drain();
  for (const auto& [work, run] : runs_) Free(run);
  runs_.clear();
}

}  // namespace simurgh::cuda
