#pragma once

#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"

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
  // kept_free: the part of the limit that is reserved for requests and connections.
  MemoryBudget(uint64_t limit_bytes, uint64_t kept_free,
               std::function<uint64_t()> resident = ResidentBytes);

  // Requests `bytes` more. newly_touched: bytes of earlier grants that the caller has touched
  // since.
  bool Grant(uint64_t bytes, uint64_t newly_touched);

 private:
  const uint64_t limit_bytes_;
  const uint64_t kept_free_;
  const std::function<uint64_t()> resident_;
  Mutex mutex_;
  uint64_t untouched_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace simurgh
