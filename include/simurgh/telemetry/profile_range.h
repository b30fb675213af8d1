#pragma once

#include <cstdint>

namespace simurgh {

// Ranges in a profile (NVTX), which may begin on one thread and end on another. Without CUDA, both
// functions do nothing. name: a string literal, shown with the step.
//
// Threads: any. Cost: a branch when no profile is recorded.
uint64_t BeginProfileRange(const char* name, uint64_t step);
void EndProfileRange(uint64_t range);

}  // namespace simurgh
