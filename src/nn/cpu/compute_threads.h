#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace simurgh::cpu {

// Lets RunParts, and all that is built on it, run on exactly `threads` threads when the calling
// thread calls it, itself among them. They are its own, sleep when there is nothing to do, and end
// with it. oneDNN calls made from one of these threads stay on it.
//
// Cost: that of starting threads when the number is another than before; else a comparison. Call it
// whenever the thread may have changed.
void SetComputeThreads(uint32_t threads);

// The number last set by this thread, 1 at first.
size_t ComputeThreads();

// Calls work(part) for all parts in [0, parts), on whichever of the threads is free. Returns when
// all are done. A thread that the system does not run holds nobody up, unless it is within a part.
// work: does not throw, calls nothing of this header.
void RunParts(size_t parts, absl::FunctionRef<void(size_t part)> work);

// So many elements are worth a thread of their own in an elementwise loop: some ten microseconds.
inline constexpr size_t kPartElements = size_t{1} << 15;

// The same in rows of so many elements.
inline size_t LeastRows(size_t columns) { return kPartElements / std::max<size_t>(columns, 1) + 1; }

// Calls work(first, end) for parts that make up [0, count), by RunParts. A part is at least about
// `least` long; there are no more than threads. Bounds are multiples of a cache line of floats.
void ForEachPart(size_t count, size_t least, absl::FunctionRef<void(size_t, size_t)> work);

}  // namespace simurgh::cpu
