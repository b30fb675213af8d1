#pragma once

#include <cstdint>

namespace simurgh {

// Ranges in a profile (NVTX), which may begin on one thread and end on another. Programs that are
// built without CUDA have none: both functions do nothing there.
//
// Threads: any. Cost: a branch where nobody records a profile.

// name: static. Shown with the step's number.
uint64_t BeginProfileRange(const char* name, uint64_t step);
void EndProfileRange(uint64_t range);

}  // namespace simurgh
