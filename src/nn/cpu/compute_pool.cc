#include "nn/cpu/compute_pool.h"

#include "simurgh/base/thread.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace simurgh::cpu {
namespace {

// Some thirty microseconds: from one layer's work to the next, not from step to step. On a virtual
// machine a processor that has nothing to do takes longer than this to wake.
constexpr int kLooks = 500;

void Relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Waits until the word is another; sleeps before long.
void AwaitOther(const std::atomic<uint32_t>& word, uint32_t value) {
  for (int look = 0; look < kLooks; ++look) {
    if (word.load(std::memory_order_acquire) != value) return;
    Relax();
  }
  word.wait(value, std::memory_order_acquire);
}

}  // namespace

ComputePool::ComputePool(size_t helpers, void (*on_start)()) {
  threads_.reserve(helpers);
  for (size_t i = 0; i < helpers; ++i) {
    threads_.emplace_back([this, on_start] {
      SetThreadName("dense");
      on_start();
      Help();
    });
  }
}

ComputePool::~ComputePool() {
  ending_ = true;
  ++pieces_;
  pieces_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ComputePool::Run(size_t parts, absl::FunctionRef<void(size_t)> work) {
  work_ = &work;
  parts_ = parts;
  next_part_.store(0, std::memory_order_relaxed);
  state_.store(kOpen, std::memory_order_release);
  pieces_.fetch_add(1, std::memory_order_release);
  pieces_.notify_all();
  DoParts();
  uint32_t within = state_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  while (within != 0) {
    AwaitOther(state_, within);
    within = state_.load(std::memory_order_acquire);
  }
}

void ComputePool::DoParts() {
  for (size_t part = next_part_.fetch_add(1, std::memory_order_relaxed); part < parts_;
       part = next_part_.fetch_add(1, std::memory_order_relaxed)) {
    (*work_)(part);
  }
}

void ComputePool::Help() {
  uint32_t seen = 0;
  while (true) {
    AwaitOther(pieces_, seen);
    // Read before the piece is entered: a later one is then seen, at worst twice.
    seen = pieces_.load(std::memory_order_acquire);
    if (ending_) return;
    if (!Enter()) continue;
    DoParts();
    Leave();
  }
}

bool ComputePool::Enter() {
  uint32_t state = state_.load(std::memory_order_relaxed);
  while ((state & kOpen) != 0) {
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void ComputePool::Leave() {
  if (state_.fetch_sub(1, std::memory_order_release) == 1) state_.notify_one();
}

}  // namespace simurgh::cpu
