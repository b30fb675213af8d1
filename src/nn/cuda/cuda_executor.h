#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <cuda_runtime.h>

#include "nn/cuda/cuda_error.h"
#include "nn/cuda/gemm.h"
#include "nn/cuda/gemm_library.h"
#include "nn/cuda/work.h"
#include "simurgh/base/status.h"
#include "simurgh/config/service_config.h"

namespace simurgh::cuda {

// Shows the work enqueued during its lifetime as a range in a profile.
class ProfileRange {
 public:
  explicit ProfileRange(const char* name);
  ~ProfileRange();
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;
};

// A CUDA device, with a stream for each lane and a side stream for computation; see DeviceNetwork.
//
// Threads: one owner.
class CudaExecutor {
 public:
  struct Options {
    int device = 0;
    ComputePrecision precision = ComputePrecision::kF32;
    bool graphs = true;   // Capture repeated work and replay it.
    bool poison = false;  // Fill fresh memory with NaN.
    bool time_compute = false;
    ChooseProduct choose_product;  // Empty: from the table of measurements.
  };

  // Returns the name of the device. Errors: NOT_FOUND without a usable device, INVALID_ARGUMENT
  // when the index is out of range.
  static StatusOr<std::string> FindDevice(int device);

  // Errors: those of FindDevice and GemmLibrary.
  static StatusOr<std::unique_ptr<CudaExecutor>> Create(const Options& options);
  ~CudaExecutor();
  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;

  const std::string& device_name() const { return device_name_; }
  int device() const { return options_.device; }
  // The stream of the present lane.
  cudaStream_t stream() const { return current_; }

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
    Note(cudaSetDevice(options_.device), "cudaSetDevice");
    cudaStream_t const before = std::exchange(current_, StreamOf(lane));
    enqueue();
    current_ = before;
  }
  // Records the event after the work enqueued so far in the present lane. Not within Run.
  void Signal(const Event& event) { Note(cudaEventRecord(EventOf(event), current_), "event"); }
  // Later work in the present lane waits for the last Signal, if any. Not within Run.
  void Await(const Event& event) { Note(cudaStreamWaitEvent(current_, EventOf(event)), "event"); }
  // Blocks the host until the event. check: polled meanwhile; after its first error, enqueued work
  // must end soon. Errors: as Synchronize; those of check.
  Status WaitFor(const Event& event, const std::function<Status()>& check = {});

  // The work of `enqueue` starts after all work enqueued before and runs in parallel with later
  // work, until JoinSide, which makes the compute stream wait for it.
  template <typename Enqueue>
  void Beside(const Enqueue& enqueue) {
    Note(cudaEventRecord(forked_, stream_), "event");
    Note(cudaStreamWaitEvent(side_, forked_), "event");
    current_ = side_;
    enqueue();
    current_ = stream_;
  }
  void JoinSide() {
    Note(cudaEventRecord(joined_, side_), "event");
    Note(cudaStreamWaitEvent(stream_, joined_), "event");
  }

  // Enqueues repeated work: the first call calls `enqueue`, the second captures it into a graph,
  // later ones launch the graph. The first call loads kernels and chooses algorithms, which is not
  // allowed in a capture.
  template <typename Enqueue>
  void Run(const Work& work, const Enqueue& enqueue) {
    const ProfileRange range(work.name());  // A launched graph has no ranges inside.
    switch (BeginRun(work)) {
      case RunMode::kEnqueue:
        return enqueue();
      case RunMode::kCapture:
        enqueue();
        return EndCapture(work);
      case RunMode::kLaunched:
        return;
    }
  }
  // Records the time for ComputeMs if time_compute is set.
  void Mark(Moment moment);
  // Milliseconds between the last step's moments. Waits for the step.
  StatusOr<double> ComputeMs();

  // Waits for all lanes, then frees captured graphs. Call it before freeing memory they use.
  void ForgetRuns();
  // Frees captured graphs without waiting; running ones are freed at their end.
  void AbandonRuns();

  ProfileRange Range(const char* name) { return ProfileRange(name); }

  // Calls kernel(i) for every i below count, in parallel.
  template <typename Kernel>
  void ForEach(size_t count, const Kernel& kernel);
  // Calls kernel(row, column) for every cell, in parallel; a warp covers adjacent columns. A
  // PackKernel runs for several columns at once.
  template <typename Kernel>
  void ForEachCell(size_t rows, size_t columns, const Kernel& kernel);
  // Calls kernel.Finish(i, sum) for every i below count, in parallel. sum adds kernel.Lane(i, lane)
  // for the kSumLanes lanes, which are adjacent threads, in a fixed order.
  template <typename Kernel>
  void ForEachSum(size_t count, const Kernel& kernel);
  // For every i below count, in parallel: calls kernel.Fill(i, k, block) for every k below fills(),
  // then kernel.Cell(i, k, block) for every k below cells(). block: bytes() of shared memory, which
  // is not initialised; at most 48 KiB.
  template <typename Kernel>
  void ForEachBlock(size_t count, const Kernel& kernel);

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

  explicit CudaExecutor(const Options& options) : options_(options) {}

  Status CreateLanes();
  cudaStream_t StreamOf(Lane lane) const {
    return lane == Lane::kCompute ? stream_ : lane == Lane::kCopyIn ? copy_in_ : copy_out_;
  }
  cudaEvent_t EventOf(const Event& event) const {
    return events_[static_cast<size_t>(event.kind) * kSlots + event.slot];
  }

  RunMode BeginRun(const Work& work);
  void EndCapture(const Work& work);
  // Keeps the first error.
  void Note(Status status) {
    if (error_.ok()) error_.Update(std::move(status));
  }
  void Note(cudaError_t error, const char* what) {
    if (error != cudaSuccess) Note(CudaStatus(error, what));
  }

  const Options options_;
  std::string device_name_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t side_ = nullptr;
  cudaStream_t copy_in_ = nullptr;
  cudaStream_t copy_out_ = nullptr;
  cudaStream_t current_ = nullptr;  // One of the above.
  cudaEvent_t forked_ = nullptr;
  cudaEvent_t joined_ = nullptr;
  std::array<cudaEvent_t, kEventKinds * kSlots> events_{};
  std::array<cudaEvent_t, kMoments> moments_{};
  std::unique_ptr<GemmLibrary> library_;
  std::map<Work, cudaGraphExec_t> graphs_;  // Null: enqueued once, not captured yet.
  Status error_ = absl::OkStatus();
};

}  // namespace simurgh::cuda
