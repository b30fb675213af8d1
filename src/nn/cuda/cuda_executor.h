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
#include "nn/cuda/device_memory.h"
#include "nn/cuda/gemm.h"
#include "nn/cuda/gemm_library.h"
#include "nn/cuda/work.h"
#include "simurgh/base/status.h"
#include "simurgh/config/service_config.h"

namespace simurgh::cuda {

// Shows what is enqueued while it lives as a range in a profile.
class ProfileRange {
 public:
  explicit ProfileRange(const char* name);
  ~ProfileRange();
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;
};

// A CUDA device: a stream for each lane, and another one beside that of computation. See
// DeviceNetwork.
//
// Threads: one owner.
class CudaExecutor {
 public:
  struct Options {
    int device = 0;
    ComputePrecision precision = ComputePrecision::kF32;
    bool graphs = true;   // Work that comes again is captured and replayed.
    bool poison = false;  // Fresh memory is full of NaN.
    bool time_compute = false;
  };

  // The name of the device. Errors: NOT_FOUND when there is none that this program can use,
  // INVALID_ARGUMENT when there are others, but not this one.
  static StatusOr<std::string> FindDevice(int device);

  // Errors: of FindDevice and GemmLibrary.
  static StatusOr<std::unique_ptr<CudaExecutor>> Create(const Options& options);
  ~CudaExecutor();
  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;

  const std::string& device_name() const { return device_name_; }
  int device() const { return options_.device; }
  // Where things are enqueued at present.
  cudaStream_t stream() const { return current_; }

  // Null when there is no memory left.
  DeviceMemory AllocateDevice(size_t bytes);
  // For any thread; gives memory back after this has ended, too.
  DeviceMemory AllocatePinned(size_t bytes) const;

  // Enqueue. The host's memory stays as it is until they are done.
  void ToDevice(void* device, const void* host, size_t bytes);
  void ToHost(void* host, const void* device, size_t bytes);
  void Zero(void* device, size_t bytes);

  // Waits for all computation. Errors: the first since the last call or WaitFor.
  Status Synchronize();
  // Waits for all lanes.
  void Drain();

  // Enqueues in a lane what `enqueue` does; else things go into that of computation. Not within
  // Run.
  template <typename Enqueue>
  void On(Lane lane, const Enqueue& enqueue) {
    Note(cudaSetDevice(options_.device), "cudaSetDevice");
    cudaStream_t const before = std::exchange(current_, StreamOf(lane));
    enqueue();
    current_ = before;
  }
  // The event happens when the present lane has come here. Not within Run, as Await.
  void Signal(const Event& event) { Note(cudaEventRecord(EventOf(event), current_), "event"); }
  // What is enqueued in the present lane from now on waits for the last Signal, if there was any.
  void Await(const Event& event) { Note(cudaStreamWaitEvent(current_, EventOf(event)), "event"); }
  // The host waits for it. check: asked meanwhile, until it has something to say: what is under way
  // ends soon then. Errors: as Synchronize; of check.
  Status WaitFor(const Event& event, const std::function<Status()>& check = {});

  // What `enqueue` enqueues begins when all that was enqueued before is done, and runs beside what
  // comes after, up to JoinSide: that waits on the device, and nothing else.
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

  // Enqueues what `enqueue` does: the first time by calling it, the second time by capturing it
  // into a graph, from then on by launching that. (The first time, kernels are loaded and
  // algorithms are chosen, which a capture would not bear; and a shape that comes once is not worth
  // one.)
  template <typename Enqueue>
  void Run(const Work& work, const Enqueue& enqueue) {
    const ProfileRange range(work.name());  // A graph that is launched has no other.
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
  // When the device has come here, for ComputeMs; with time_compute.
  void Mark(Moment moment);
  // Of the last step: between the moments. Waits for it.
  StatusOr<double> ComputeMs();

  // Forgets captured graphs: what they refer to goes. Waits for all lanes first.
  void ForgetRuns();
  // The same without waiting. A graph that runs goes when it ends.
  void AbandonRuns();

  ProfileRange Range(const char* name) { return ProfileRange(name); }

  // kernel(i) for every i below count, at once and in no order.
  template <typename Kernel>
  void ForEach(size_t count, const Kernel& kernel);
  // kernel(row, column) for every cell, likewise; neighbours of a warp are columns.
  template <typename Kernel>
  void ForEachCell(size_t rows, size_t columns, const Kernel& kernel);

  // Whether the product's epilogue is done with it.
  template <typename T, typename Out>
  bool Multiply(const Gemm<T, Out>& gemm) {
    const StatusOr<GemmLibrary::Outcome> outcome = library_->Multiply(gemm, current_);
    if (!outcome.ok()) {
      Note(outcome.status());
      return true;
    }
    if (*outcome == GemmLibrary::Outcome::kNotTaken) {
      ForEachCell(gemm.d.rows, gemm.d.columns, GemmCell<T, Out>(gemm));
      return gemm.epilogue == Epilogue::kNone;
    }
    return *outcome == GemmLibrary::Outcome::kFused;
  }

 private:
  enum class RunMode { kEnqueue, kCapture, kLaunched };

  explicit CudaExecutor(const Options& options) : options_(options) {}

  // Streams and events.
  Status CreateLanes();
  cudaStream_t StreamOf(Lane lane) const {
    return lane == Lane::kCompute ? stream_ : lane == Lane::kCopyIn ? copy_in_ : copy_out_;
  }
  cudaEvent_t EventOf(const Event& event) const {
    return events_[static_cast<size_t>(event.kind) * kSlots + event.slot];
  }

  RunMode BeginRun(const Work& work);
  void EndCapture(const Work& work);
  // Keeps the first.
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
  cudaStream_t current_ = nullptr;  // One of them.
  cudaEvent_t forked_ = nullptr;
  cudaEvent_t joined_ = nullptr;
  std::array<cudaEvent_t, kEventKinds * kSlots> events_{};
  std::array<cudaEvent_t, kMoments> moments_{};
  std::unique_ptr<GemmLibrary> library_;
  std::map<Work, cudaGraphExec_t> graphs_;  // Null: came once.
  Status error_ = absl::OkStatus();
};

}  // namespace simurgh::cuda
