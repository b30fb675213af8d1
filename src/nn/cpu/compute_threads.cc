#include "nn/cpu/compute_threads.h"

// Of libgomp, on which Debian's oneDNN runs. Declared here because clang's <omp.h> belongs to
// another runtime.
extern "C" void omp_set_num_threads(int threads);

namespace simurgh::cpu {

void SetComputeThreads(uint32_t threads) { omp_set_num_threads(static_cast<int>(threads)); }

}  // namespace simurgh::cpu
