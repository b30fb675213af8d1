#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"

namespace simurgh {

// Resident memory of this process, including huge pages of files; 0 when /proc is not readable.
//
// Source: proc(5), /proc/pid/status: VmRSS and HugetlbPages. Cost: some system calls.
uint64_t ResidentBytes();

// Memory limit of a server. A table requests the memory of some thousand rows, or of some sketches,
// before it grows. A request is granted while measured resident memory plus granted but untouched
// memory stays within the limit. Tables never return memory; they reuse that of evicted rows.
//
// Threads: any.
class MemoryBudget {
 public:
  // kept_free: the part of the limit that is reserved for requests and connections. kept_for_cold:
  // a further part that only cold rows use.
  MemoryBudget(uint64_t limit_bytes, uint64_t kept_free,
               std::function<uint64_t()> resident = ResidentBytes, uint64_t kept_for_cold = 0);

  // Requests `bytes` more. newly_touched: bytes of earlier grants that the caller has touched
  // since.
  bool Grant(uint64_t bytes, uint64_t newly_touched);

  // Returns whether some more cold rows may be kept. Their memory is not granted: ask again after
  // some thousand rows.
  bool AllowsColdRows();

 private:
  const uint64_t limit_bytes_;
  const uint64_t kept_free_;
  const uint64_t kept_for_cold_;
  const std::function<uint64_t()> resident_;
  Mutex mutex_;
  uint64_t untouched_ ABSL_GUARDED_BY(mutex_) = 0;
};

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

  // For the writer. IsShort() returns whether a reservation has failed since ClearShortage();
  // AwaitShortage() waits for that.
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
