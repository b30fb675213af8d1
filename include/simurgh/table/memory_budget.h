#pragma once

#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"

namespace simurgh {

// Resident memory of this process, huge pages of files included. 0 where the system does not tell.
//
// Source: proc(5), /proc/pid/status: VmRSS and HugetlbPages. Cost: some system calls.
uint64_t ResidentBytes();

// How much memory a server may take, and who may take more of it. Tables ask for the pages of some
// thousand rows, or of some sketches, before they grow; it is granted while the process, as
// measured, with all that was granted and is not yet touched, stays within the limit.
//
// What tables have taken stays theirs: they use the memory of rows that go again.
//
// Threads: any.
class MemoryBudget {
 public:
  // `kept_free`: of the limit, left to what is not tables: requests, connections.
  MemoryBudget(uint64_t limit_bytes, uint64_t kept_free,
               std::function<uint64_t()> resident = ResidentBytes);

  // Asks for `bytes` more. `used_up`: of earlier grants, what the caller has touched since.
  bool Grant(uint64_t bytes, uint64_t used_up);

  uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  const uint64_t limit_bytes_;
  const uint64_t kept_free_;
  const std::function<uint64_t()> resident_;
  Mutex mutex_;
  uint64_t untouched_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace simurgh
