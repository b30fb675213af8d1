#include "nn/cpu/compute_threads.h"

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "base/thread.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Declared by libgomp, which Debian's oneDNN uses; clang's <omp.h> belongs to another runtime.
extern "C" void omp_set_num_threads(int threads);

namespace simurgh::cpu {
namespace {

constexpr size_t kAlignment = 16;  // Floats per cache line.

thread_local std::unique_ptr<ComputePool> pool;  // Null: no helpers.

// Returns the start of a part. PartBegin(count, parts, parts) is the end.
size_t PartBegin(size_t count, size_t part, size_t parts) {
  if (part == parts) return count;
  return count * part / parts / kAlignment * kAlignment;
}

// libgomp's idle threads spin for milliseconds on cores that other daemons of the machine need.
void KeepOneDnnOnThisThread() { omp_set_num_threads(1); }

// About thirty microseconds: enough to wait for the next layer's work, not for the next step. On a
// virtual machine an idle processor takes longer to wake.
constexpr int kSpins = 500;

// Waits some cycles, in which the other thread of the core may work.
void Relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");  // YIELD does not wait on most processors.
#endif
}

// Waits until the word differs from `value`: spins, then sleeps.
void AwaitChange(const std::atomic<uint32_t>& word, uint32_t value) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (word.load(std::memory_order_acquire) != value) return;
    Relax();
  }
  word.wait(value, std::memory_order_acquire);
}

}  // namespace

void SetComputeThreads(uint32_t threads) {
  SIMURGH_CHECK_LT(0U, threads);
  KeepOneDnnOnThisThread();
  if (ComputeThreads() == threads) return;
  pool =
      threads == 1 ? nullptr : std::make_unique<ComputePool>(threads - 1, KeepOneDnnOnThisThread);
}

size_t ComputeThreads() { return pool == nullptr ? 1 : pool->helpers() + 1; }

void RunParts(size_t parts, absl::FunctionRef<void(size_t)> work) {
  if (pool != nullptr && parts > 1) return pool->Run(parts, work);
  for (size_t part = 0; part < parts; ++part) work(part);
}

void ForEachPart(size_t count, size_t min, absl::FunctionRef<void(size_t, size_t)> work) {
  const size_t parts = std::min(ComputeThreads(), count / min);
  if (parts <= 1) {
    if (count > 0) work(0, count);
    return;
  }
  RunParts(parts, [&](size_t part) {
    const size_t first = PartBegin(count, part, parts);
    const size_t end = PartBegin(count, part + 1, parts);
    if (first < end) work(first, end);
  });
}

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
    AwaitChange(state_, within);
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
    AwaitChange(pieces_, seen);
    // The count is read before Enter(), so that no later piece is missed.
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
