#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace simurgh::cpu {

// Sets the number of threads, including the caller, of this thread's RunParts calls. The calling
// thread owns the helpers, which sleep while idle and end with it. oneDNN does not start threads
// from any of them.
//
// Cost: starts threads if the number changes, else a comparison. Call it wherever the calling
// thread may be a new one.
void SetComputeThreads(uint32_t threads);

// The number last set by this thread; initially 1.
size_t ComputeThreads();

// Calls work(part) for all parts in [0, parts), each on the next free thread, and returns when all
// are done. A helper that the system does not schedule delays the call only while it runs a part.
// Requires: work does not throw or call functions of this header.
void RunParts(size_t parts, absl::FunctionRef<void(size_t part)> work);

// Minimum elements per thread in an elementwise loop: about ten microseconds of work.
inline constexpr size_t kPartElements = size_t{1} << 15;

// kPartElements in rows.
inline size_t MinRows(size_t columns) { return kPartElements / std::max<size_t>(columns, 1) + 1; }

// Calls work(first, end) for ranges that make up [0, count), by RunParts. Makes at most one range
// per thread, each about `min` or longer, with bounds at multiples of a cache line of floats.
void ForEachPart(size_t count, size_t min, absl::FunctionRef<void(size_t, size_t)> work);

}  // namespace simurgh::cpu
