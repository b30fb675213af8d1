#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/base/status.h"
#include "simurgh/config/training_config.h"

namespace simurgh {

// Sums over the ranks of a run in the memory of their devices, for a network that enqueues them
// between its kernels. Every rank enqueues the same calls in the same order, with equal lengths.
//
// stream: a cudaStream_t. All memory is the device's, and stays until the stream has come so far.
// Errors: of calls that could not be enqueued; what fails later shows in Check.
// Threads: one owner.
class DeviceSums {
 public:
  virtual ~DeviceSums() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t ranks() const = 0;

  // Replaces `values` by their sums: the same bits on every rank.
  virtual Status Sum(std::span<float> values, void* stream) = 0;
  virtual Status Sum(std::span<double> values, void* stream) = 0;

  // Sends part r of `outgoing` to rank r and receives its part for this one as part r of
  // `incoming`; both are ranks() parts of `part_bytes`. A rank's own part need not come.
  virtual Status Exchange(const std::byte* outgoing, std::byte* incoming, size_t part_bytes,
                          void* stream) = 0;
  // Everybody's bytes, one after the other in the order of the ranks.
  virtual Status Gather(std::span<const std::byte> own, std::byte* all, void* stream) = 0;

  // Told when a training step is enqueued as a whole, and when the device has done it.
  virtual void StepEnqueued() = 0;
  virtual void StepEnded() = 0;

  // Asked again and again while the device is waited for. Not OK: what is enqueued may never end
  // but by GiveUp; the status names the rank at fault. From then on all calls fail with it.
  virtual Status Check() = 0;
  // After Check has failed: what is enqueued ends soon. No graph that was captured may be left that
  // has sums in it, but one that runs and is freed with its end: NCCL would wait for it for ever.
  virtual void GiveUp() = 0;
};

// What a network on a device needs to sum its gradients there.
struct DeviceRanks {
  DeviceSums* sums = nullptr;
  AllReduceConfig allreduce;
  bool overlap = true;  // Sums run beside the backward pass; else behind it.
};

}  // namespace simurgh
