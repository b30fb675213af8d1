#pragma once

#include <cstdint>

namespace simurgh::cpu {

// Lets oneDNN calls of the calling thread run on exactly `threads` threads, itself among them.
//
// Cost: a store; call it whenever the thread may have changed.
void SetComputeThreads(uint32_t threads);

}  // namespace simurgh::cpu
