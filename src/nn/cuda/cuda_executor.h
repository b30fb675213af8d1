#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include "base/status.h"
#include "config/service_config.h"
#include "nn/cuda/cuda_error.h"
#include "nn/cuda/gemm.h"
#include "nn/cuda/gemm_library.h"
#include "nn/cuda/work.h"

namespace simurgh::cuda {

// Shows the work enqueued during its lifetime as a range in a profile.
class ProfileRange {
 public:
  explicit ProfileRange(const char* name);
  ~ProfileRange();
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;
};

// A CUDA device with a stream for each lane; see DeviceNetwork.
//
// Threads: one owner.
class CudaExecutor {
 public:
  struct Options {
    int device = 0;
    ComputePrecision precision = ComputePrecision::kF32;
    bool graphs = true;                  // Capture repeated work and replay it.
    bool poison = false;                 // Fill fresh memory with NaN.
    const CublasLt* products = nullptr;  // Null: the installed library.
    ChooseProduct choose_product;        // Empty: chooses from the table of measurements.
  };

  // Returns the name of the device. Errors: NOT_FOUND without a usable device, INVALID_ARGUMENT
  // when the index is out of range.
  static StatusOr<std::string> FindDevice(int device);

  // Errors: those of FindDevice and GemmLibrary.
  static StatusOr<std::unique_ptr<CudaExecutor>> Create(const Options& options);
  ~CudaExecutor();
  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;

  // Returns the scores that InBatchMemory keeps at a time, 64 MiB: a launch over as many fills a
  // device.
  static size_t score_floats() { return size_t{1} << 24; }

  const std::string& device_name() const { return device_name_; }
  int device() const { return options_.device; }
  // Returns the stream of the present lane.
  cudaStream_t stream() const { return current_; }

  // Selects the device for the calling thread: before work that the thread enqueues.
  void MakeCurrent() { Note(cudaSetDevice(options_.device), "cudaSetDevice"); }

  // Returns null without memory.
  DeviceMemory AllocateDevice(size_t bytes);
  // Threads: any. Lifetime: the memory may outlive this.
  DeviceMemory AllocatePinned(size_t bytes) const;

  // Enqueue copies. Host memory must not change until they are done.
  void ToDevice(void* device, const void* host, size_t bytes);
  void ToHost(void* host, const void* device, size_t bytes);
  void Zero(void* device, size_t bytes);

  // Waits for all computation. Errors: the first since the last call or WaitFor.
  Status Synchronize();
  // Waits for all lanes.
  void Drain();

  // Calls `enqueue`, whose work runs in the lane. Otherwise work runs in the compute lane. Not
  // within Run.
  template <typename Enqueue>
  void On(Lane lane, const Enqueue& enqueue) {
    cudaStream_t const before = std::exchange(current_, StreamOf(lane));
    enqueue();
    current_ = before;
  }
  // Records the event after the work enqueued so far in the present lane. Not within Run.
  void Signal(const Event& event) { Note(cudaEventRecord(EventOf(event), current_), "event"); }
  // Makes later work in the present lane wait for the last Signal, if any. Not within Run.
  void Await(const Event& event) { Note(cudaStreamWaitEvent(current_, EventOf(event)), "event"); }
  // Blocks the host until the event. check: polled meanwhile; after its first error, enqueued work
  // must end soon. Errors: as Synchronize; those of check.
  Status WaitFor(const Event& event, const std::function<Status()>& check = {});

  // Enqueues repeated work: the first call calls `enqueue`, the second captures it into graphs,
  // later ones launch the graphs. The first call loads kernels and chooses algorithms, which is not
  // allowed in a capture. If a capture fails, what has not run yet does so without graphs, as does
  // all later work.
  template <typename Enqueue>
  void Run(const Work& work, const Enqueue& enqueue) {
    const ProfileRange range(work.name());  // A launched graph has no ranges inside.
    switch (BeginRun(work)) {
      case RunMode::kEnqueue:
        return enqueue();
      case RunMode::kCapture:
        enqueue();
        if (!EndCapture()) enqueue();
        return;
      case RunMode::kLaunched:
        return;
    }
  }
  // Enqueues work within Run that must not be captured. A replay calls `enqueue` between two
  // graphs, after this call has returned.
  void Between(std::function<void()> enqueue) {
    if (capturing_ == nullptr) return enqueue();
    EndPiece();
    capturing_->second.pieces.back().next = std::move(enqueue);
    BeginPiece();
  }

  // Waits for all lanes, then frees captured graphs. Call it before freeing memory they use.
  void ForgetRuns();

  ProfileRange Range(const char* name) { return ProfileRange(name); }

  // Launches of kernels. launch.cuh defines them; inlined, they would have no symbols to link.

  // Calls kernel(i) for every i below count, in parallel.
  template <typename Kernel>
  [[gnu::noinline]] void ForEach(size_t count, const Kernel& kernel);
  // Calls kernel(row, column) for every cell, in parallel; a warp covers adjacent columns. A
  // PackKernel runs for several columns at once.
  template <typename Kernel>
  [[gnu::noinline]] void ForEachCell(size_t rows, size_t columns, const Kernel& kernel);
  // Calls kernel.Finish(i, sum) for every i below count, in parallel. sum adds kernel.Lane(i, lane)
  // for the kSumLanes lanes, which are adjacent threads, in a fixed order.
  template <typename Kernel>
  [[gnu::noinline]] void ForEachSum(size_t count, const Kernel& kernel);
  // For every i below count, in parallel: calls kernel.Fill(i, k, block) for every k below fills(),
  // then kernel.Cell(i, k, block) for every k below cells(). block: bytes() of shared memory, which
  // is not initialised; at most 48 KiB.
  template <typename Kernel>
  [[gnu::noinline]] void ForEachBlock(size_t count, const Kernel& kernel);

  // Enqueues the product. Returns whether its epilogue was fused.
  template <typename T, typename Out>
  bool Multiply(const Gemm<T, Out>& gemm) {
    const StatusOr<GemmLibrary::Outcome> outcome = library_->Multiply(gemm, current_);
    if (!outcome.ok()) {
      Note(outcome.status());
      return true;
    }
    if (*outcome == GemmLibrary::Outcome::kNotTaken) {
      ForEachCell(gemm.d.rows, gemm.d.columns, GemmCell<T, Out>{gemm});
      return gemm.epilogue == Epilogue::kNone;
    }
    return *outcome == GemmLibrary::Outcome::kFused;
  }

 private:
  enum class RunMode { kEnqueue, kCapture, kLaunched };

  // Captured work up to the next call of Between.
  struct Piece {
    cudaGraphExec_t graph = nullptr;  // Null without work.
    std::function<void()> next;
  };
  struct CapturedRun {
    std::vector<Piece> pieces;  // Empty: enqueued once, not captured yet.
    uint64_t last_use = 0;
  };

  explicit CudaExecutor(const Options& options) : options_(options), uses_graphs_(options.graphs) {}

  Status CreateLanes();
  cudaStream_t StreamOf(Lane lane) const { return streams_[static_cast<size_t>(lane)]; }
  cudaEvent_t EventOf(const Event& event) const {
    return events_[static_cast<size_t>(event.kind) * kSlots + event.slot];
  }

  RunMode BeginRun(const Work& work);
  // If the capture cannot begin, runs the pieces before. Then all work runs at once.
  void BeginPiece();
  void EndPiece();
  // Launches the captured work. Returns false if a capture failed and nothing has run.
  bool EndCapture();
  // Ends the capture and all use of graphs.
  void GiveGraphsUp(cudaError_t error);
  void Launch(const CapturedRun& run);
  static void Free(const CapturedRun& run);
  // Keeps the first error.
  void Note(Status status) {
    if (error_.ok()) error_.Update(std::move(status));
  }
  void Note(cudaError_t error, const char* what) {
    if (error != cudaSuccess) Note(CudaStatus(error, what));
  }

  const Options options_;
  std::string device_name_;
  std::array<cudaStream_t, kLanes> streams_{};
  cudaStream_t stream_ = nullptr;   // Stream of the compute lane.
  cudaStream_t current_ = nullptr;  // Stream of the present lane.
  std::array<cudaEvent_t, kEventKinds * kSlots> events_{};
  std::unique_ptr<GemmLibrary> library_;
  bool uses_graphs_ = true;
  std::map<Work, CapturedRun> runs_;
  uint64_t uses_ = 0;                                        // Number of uses of all runs_.
  std::pair<const Work, CapturedRun>* capturing_ = nullptr;  // The run being captured.
  cudaError_t capture_error_ = cudaSuccess;                  // The first error of that run.
  Status error_before_ = absl::OkStatus();                   // Value of error_ before the capture.
  Status error_ = absl::OkStatus();
};

}  // namespace simurgh::cuda
