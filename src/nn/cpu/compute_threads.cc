#include "nn/cpu/compute_threads.h"

#include <algorithm>
#include <memory>

#include "nn/cpu/compute_pool.h"
#include "simurgh/base/check.h"

// From libgomp, which Debian's oneDNN uses; clang's <omp.h> belongs to another runtime.
extern "C" void omp_set_num_threads(int threads);

namespace simurgh::cpu {
namespace {

constexpr size_t kAlignment = 16;  // Floats per cache line.

thread_local std::unique_ptr<ComputePool> pool;  // Null: no helpers.

// Start of a part. PartBegin(count, parts, parts) is the end.
size_t PartBegin(size_t count, size_t part, size_t parts) {
  if (part == parts) return count;
  return count * part / parts / kAlignment * kAlignment;
}

// libgomp's idle threads spin for milliseconds on cores that other daemons of the machine need.
void KeepOneDnnOnThisThread() { omp_set_num_threads(1); }

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

}  // namespace simurgh::cpu
