#pragma once

namespace simurgh {

// Limits Highway's kernels to AVX2 when the environment has ONEDNN_MAX_CPU_ISA=AVX2, which oneDNN
// reads itself. One variable thus runs a program as on a processor without AVX-512.
//
// Threads: call in main, before other threads start.
void LimitSimdFromEnvironment();

}  // namespace simurgh
