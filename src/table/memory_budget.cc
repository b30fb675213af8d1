#include "simurgh/table/memory_budget.h"

#include <fstream>
#include <string>
#include <utility>

#include "simurgh/base/check.h"

namespace simurgh {

uint64_t ResidentBytes() {
  std::ifstream status("/proc/self/status");
  uint64_t bytes = 0;
  for (std::string word; status >> word;) {
    uint64_t kib = 0;
    if ((word == "VmRSS:" || word == "HugetlbPages:") && status >> kib) bytes += kib << 10;
  }
  return bytes;
}

MemoryBudget::MemoryBudget(uint64_t limit_bytes, uint64_t kept_free,
                           std::function<uint64_t()> resident)
    : limit_bytes_(limit_bytes), kept_free_(kept_free), resident_(std::move(resident)) {}

bool MemoryBudget::Grant(uint64_t bytes, uint64_t newly_touched) {
  const MutexLock lock(mutex_);
  SIMURGH_CHECK_LE(newly_touched, untouched_);
  untouched_ -= newly_touched;
  if (resident_() + untouched_ + bytes + kept_free_ > limit_bytes_) return false;
  untouched_ += bytes;
  return true;
}

}  // namespace simurgh
