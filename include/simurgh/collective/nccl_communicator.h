#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "simurgh/base/status.h"
#include "simurgh/collective/nccl_library.h"

namespace simurgh {

// This rank's end of a group of NCCL: sums and exchanges in device memory, enqueued on streams.
//
// No call blocks on another rank for longer than `check` and the deadline let it. After the first
// error, or Fail, every call fails with that error; what is on the streams ends with GiveUp.
//
// Threads: one owner.
class NcclCommunicator {
 public:
  struct Options {
    uint32_t rank = 0;
    uint32_t ranks = 1;
    int device = 0;
    std::chrono::milliseconds timeout{120'000};  // Of each call.
  };

  // Connects with the others. check: asked while a call is in progress; not OK fails it.
  // Errors: of the library and of check; DEADLINE_EXCEEDED.
  // Lifetime: the library and what `check` refers to outlive this.
  static StatusOr<std::unique_ptr<NcclCommunicator>> Create(NcclLibrary& library, const NcclId& id,
                                                            const Options& options,
                                                            std::function<Status()> check);
  // Gives up, unless everything has come to its end: wait for the streams first.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const Options& options() const { return options_; }

  // As DeviceSums has them.
  Status Sum(std::span<float> values, void* stream);
  Status Sum(std::span<double> values, void* stream);
  Status Exchange(const std::byte* outgoing, std::byte* incoming, size_t part_bytes, void* stream);
  Status Gather(std::span<const std::byte> own, std::byte* all, void* stream);

  // What has gone wrong, on the streams too.
  Status State();
  // Keeps the first reason.
  void Fail(const Status& reason);
  // Aborts what is on the streams, after a failure. As DeviceSums has it.
  void GiveUp();

 private:
  NcclCommunicator(NcclLibrary& library, const Options& options, std::function<Status()> check);

  // Makes a call, and waits until it is enqueued.
  template <typename Function>
  Status Call(const char* what, const Function& call);
  Status Await(const char* what);

  NcclLibrary& library_;
  const Options options_;
  const std::function<Status()> check_;
  NcclLibrary::Handle handle_ = nullptr;  // Null: not connected, or given up.
  Status failure_ = absl::OkStatus();
};

}  // namespace simurgh
