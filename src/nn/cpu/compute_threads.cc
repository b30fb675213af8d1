#include "nn/cpu/compute_threads.h"

#include <algorithm>

// Of libgomp, on which Debian's oneDNN runs. Declared here because clang's <omp.h> belongs to
// another runtime.
extern "C" {
void omp_set_num_threads(int threads);
int omp_get_max_threads();
int omp_get_num_threads();
int omp_get_thread_num();
void GOMP_parallel(void (*body)(void*), void* argument, unsigned threads, unsigned flags);
}

namespace simurgh::cpu {
namespace {

constexpr size_t kAlignment = 16;  // Floats of a cache line.

struct Loop {
  size_t count;
  absl::FunctionRef<void(size_t, size_t)> work;
};

// Where the part of this number begins; that of the number of parts is the end.
size_t PartBegin(size_t count, size_t part, size_t parts) {
  if (part == parts) return count;
  return count * part / parts / kAlignment * kAlignment;
}

void RunPart(void* argument) {
  const Loop& loop = *static_cast<const Loop*>(argument);
  const auto part = static_cast<size_t>(omp_get_thread_num());
  const auto parts = static_cast<size_t>(omp_get_num_threads());
  const size_t first = PartBegin(loop.count, part, parts);
  const size_t end = PartBegin(loop.count, part + 1, parts);
  if (first < end) loop.work(first, end);
}

}  // namespace

void SetComputeThreads(uint32_t threads) { omp_set_num_threads(static_cast<int>(threads)); }

void ForEachPart(size_t count, size_t least, absl::FunctionRef<void(size_t, size_t)> work) {
  const auto threads = std::min<size_t>(static_cast<size_t>(omp_get_max_threads()), count / least);
  if (threads <= 1) {
    if (count > 0) work(0, count);
    return;
  }
  Loop loop{count, work};
  GOMP_parallel(RunPart, &loop, static_cast<unsigned>(threads), 0);
}

}  // namespace simurgh::cpu
