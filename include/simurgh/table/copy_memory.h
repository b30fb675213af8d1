#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"

namespace simurgh {

// The memory of rows that a checkpoint has copied and not yet written. The partitions' threads fill
// it, the writer's thread empties it.
//
// Threads: any.
class CopyMemory {
 public:
  using Clock = std::chrono::steady_clock;

  explicit CopyMemory(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Reserves memory for a piece of a request, until Release(). Returns false if that would exceed
  // the limit: the writer then empties the memory. More than the limit is reserved if it is empty.
  bool Reserve(uint64_t bytes);
  // Takes memory whatever the limit: of the caller's reservation, or of something small.
  void Take(uint64_t bytes) { used_bytes_ += bytes; }
  void Release(uint64_t bytes) { used_bytes_ -= bytes; }

  // For the writer: whether a reservation has failed since ClearShortage(), and a wait for that.
  bool IsShort() const;
  void AwaitShortage(Clock::time_point until) const;
  void ClearShortage();

  uint64_t used_bytes() const { return used_bytes_; }

 private:
  const uint64_t limit_bytes_;
  std::atomic<uint64_t> used_bytes_ = 0;
  mutable Mutex mutex_;
  mutable CondVar shortage_;
  bool is_short_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace simurgh
