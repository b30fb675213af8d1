#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "config/training_config.h"

namespace simurgh {

// Sums over the ranks of a run in device memory. A network enqueues them between its kernels, never
// in a captured graph. Every rank enqueues the same calls in the same order, with equal lengths.
//
// stream: a cudaStream_t. Lifetime: device memory stays until the stream has executed the call.
// Errors: those of calls that could not be enqueued; Check reports later failures.
// Threads: one owner.
class DeviceSums {
 public:
  virtual ~DeviceSums() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t ranks() const = 0;

  // Replaces `values` by their sums: the same bits on every rank.
  virtual Status Sum(std::span<float> values, void* stream) = 0;
  virtual Status Sum(std::span<double> values, void* stream) = 0;

  // Sends part r of `outgoing` to rank r and receives part r of `incoming` from rank r. Both have
  // ranks() parts of `part_bytes`. The rank's own part of `incoming` may stay unset.
  virtual Status Exchange(const std::byte* outgoing, std::byte* incoming, size_t part_bytes,
                          void* stream) = 0;
  // Concatenates the ranks' bytes in rank order.
  virtual Status Gather(std::span<const std::byte> own, std::byte* all, void* stream) = 0;

  // Called by the network when a training step is fully enqueued, and when the device is done.
  virtual void StepEnqueued() = 0;
  virtual void StepEnded() = 0;

  // Polled by the network while it waits for the device. Not OK: enqueued work may hang until
  // GiveUp; the status names the rank at fault. All later calls fail with it.
  virtual Status Check() = 0;
  // Ends enqueued work soon, after an error of Check or of the device. All later calls fail with
  // the first reason.
  virtual void GiveUp(const Status& reason) = 0;
};

// Settings of a network that sums its gradients on the device.
struct DeviceRanks {
  DeviceSums* sums = nullptr;
  AllReduceConfig allreduce;
  bool overlap = true;  // True: sums during the backward pass; else after it.
};

}  // namespace simurgh
