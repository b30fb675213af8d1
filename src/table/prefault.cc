#include "table/prefault.h"

#include <sys/mman.h>

#include "simurgh/base/thread.h"

namespace simurgh {

PrefaultThread::~PrefaultThread() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  ++queued_;
  queued_.notify_one();
  thread_.join();
}

bool PrefaultThread::Prefault(std::byte* first, uint64_t bytes) {
  const uint32_t queued = queued_.load(std::memory_order_relaxed);
  if (queued - done_.load(std::memory_order_acquire) == kMaxQueued) return false;
  queue_[queued % kMaxQueued] = {first, bytes};
  waiting_bytes_ += bytes;
  queued_.store(queued + 1, std::memory_order_release);
  queued_.notify_one();
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  return true;
}

void PrefaultThread::Run() {
  SetThreadName("prefault");
  for (uint32_t done = 0;; ++done) {
    queued_.wait(done, std::memory_order_acquire);
    if (stopping_) return;
    const Range range = queue_[done % kMaxQueued];
    // Fails before Linux 5.14 and without free memory; the first touch then populates the pages.
    madvise(range.first, range.bytes, MADV_POPULATE_WRITE);
    waiting_bytes_ -= range.bytes;
    done_.store(done + 1, std::memory_order_release);
  }
}

}  // namespace simurgh
