#include "table/prefaulter.h"

#include <sys/mman.h>

#include "simurgh/base/thread.h"

namespace simurgh {

Prefaulter::~Prefaulter() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  ++asked_;
  asked_.notify_one();
  thread_.join();
}

bool Prefaulter::Prefault(std::byte* first, uint64_t bytes) {
  const uint32_t asked = asked_.load(std::memory_order_relaxed);
  if (asked - done_.load(std::memory_order_acquire) == kMaxWanted) return false;
  wanted_[asked % kMaxWanted] = {first, bytes};
  waiting_bytes_ += bytes;
  asked_.store(asked + 1, std::memory_order_release);
  asked_.notify_one();
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  return true;
}

void Prefaulter::Run() {
  SetThreadName("prefaulter");
  for (uint32_t done = 0;; ++done) {
    asked_.wait(done, std::memory_order_acquire);
    if (stopping_) return;
    const Range range = wanted_[done % kMaxWanted];
    // Fails on systems before Linux 5.14, and where there is no memory: then it is as without.
    madvise(range.first, range.bytes, MADV_POPULATE_WRITE);
    waiting_bytes_ -= range.bytes;
    done_.store(done + 1, std::memory_order_release);
  }
}

}  // namespace simurgh
