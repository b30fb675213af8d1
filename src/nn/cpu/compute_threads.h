#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace simurgh::cpu {

// Lets oneDNN calls and ForEachPart of the calling thread run on exactly `threads` threads, itself
// among them.
//
// Cost: a store; call it whenever the thread may have changed.
void SetComputeThreads(uint32_t threads);

// So many elements are worth a thread of their own in an elementwise loop: some ten microseconds.
inline constexpr size_t kPartElements = size_t{1} << 15;

// Calls work(first, end) for parts that make up [0, count), each on one of the threads that oneDNN
// computes on, so that neither takes cores from the other. A part is at least about `least` long;
// there are no more than threads. Bounds are multiples of a cache line of floats. Returns when all
// are done. work: does not throw.
void ForEachPart(size_t count, size_t least, absl::FunctionRef<void(size_t, size_t)> work);

}  // namespace simurgh::cpu
