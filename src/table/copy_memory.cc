#include "simurgh/table/copy_memory.h"

namespace simurgh {

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
