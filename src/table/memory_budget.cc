#include "table/memory_budget.h"

#include <fstream>
#include <string>
#include <utility>

#include "base/check.h"

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
                           std::function<uint64_t()> resident, uint64_t kept_for_cold)
    : limit_bytes_(limit_bytes),
      kept_free_(kept_free),
      kept_for_cold_(kept_for_cold),
      resident_(std::move(resident)) {}

bool MemoryBudget::Grant(uint64_t bytes, uint64_t newly_touched) {
  const MutexLock lock(mutex_);
  SIMURGH_CHECK_LE(newly_touched, untouched_);
  untouched_ -= newly_touched;
  const uint64_t used = resident_() + untouched_ + bytes;
  if (used + kept_free_ + kept_for_cold_ > limit_bytes_) return false;
  untouched_ += bytes;
  return true;
}

bool MemoryBudget::AllowsColdRows() {
  const MutexLock lock(mutex_);
  return resident_() + untouched_ + kept_free_ <= limit_bytes_;
}

bool CopyMemory::Reserve(uint64_t bytes) {
  uint64_t used = used_bytes_;
  while (used == 0 || used + bytes <= limit_bytes_) {
    if (used_bytes_.compare_exchange_weak(used, used + bytes)) return true;
  }
  const MutexLock lock(mutex_);
  is_short_ = true;
  shortage_.NotifyAll();
  return false;
}

bool CopyMemory::IsShort() const {
  const MutexLock lock(mutex_);
  return is_short_;
}

void CopyMemory::AwaitShortage(Clock::time_point until) const {
  const MutexLock lock(mutex_);
  while (!is_short_ && shortage_.WaitUntil(mutex_, until)) {
  }
}

void CopyMemory::ClearShortage() {
  const MutexLock lock(mutex_);
  is_short_ = false;
}

}  // namespace simurgh
