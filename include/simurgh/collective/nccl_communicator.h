#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "simurgh/base/status.h"
#include "simurgh/collective/nccl_library.h"

namespace simurgh {

// This rank's NCCL communicator: sums and exchanges in device memory, enqueued on streams.
//
// A call waits for other ranks until `check` fails or the timeout expires. After the first error,
// or Fail, every call fails with that error; GiveUp ends enqueued work.
//
// Threads: one owner.
class NcclCommunicator {
 public:
  struct Options {
    uint32_t rank = 0;
    uint32_t ranks = 1;
    int device = 0;
    std::chrono::milliseconds timeout{120'000};  // Per call.
  };

  // Connects to the other ranks. check: polled while a call is in progress; an error fails the
  // call. Errors: those of the library and of check; DEADLINE_EXCEEDED.
  // Lifetime: the library and what `check` refers to outlive this.
  static StatusOr<std::unique_ptr<NcclCommunicator>> Create(NcclLibrary& library, const NcclId& id,
                                                            const Options& options,
                                                            std::function<Status()> check);
  // Waits at most the timeout until all ranks have ended their work, then frees the communicator,
  // or aborts it. Wait for the streams first.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const Options& options() const { return options_; }

  // As in DeviceSums.
  Status Sum(std::span<float> values, void* stream);
  Status Sum(std::span<double> values, void* stream);
  Status Exchange(const std::byte* outgoing, std::byte* incoming, size_t part_bytes, void* stream);
  Status Gather(std::span<const std::byte> own, std::byte* all, void* stream);

  // The first error, including asynchronous ones on the streams.
  Status State();
  // Fails all later calls; only the first reason counts.
  void Fail(const Status& reason);
  // Aborts enqueued work after a failure. As in DeviceSums.
  void GiveUp();

 private:
  NcclCommunicator(NcclLibrary& library, const Options& options, std::function<Status()> check);

  // Makes a call and waits until it is enqueued.
  template <typename Function>
  Status Call(const char* what, const Function& call);
  Status Await(const char* what);

  NcclLibrary& library_;
  const Options options_;
  const std::function<Status()> check_;
  NcclLibrary::Handle handle_ = nullptr;  // Null before Connect and after GiveUp.
  Status failure_ = absl::OkStatus();
};

}  // namespace simurgh
