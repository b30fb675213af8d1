#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "nn/cpu/compute_threads.h"
#include "simurgh/tensor/finite.h"

namespace simurgh::cpu {

// Whether no value is NaN or infinite. Cost: one pass over memory on the compute threads.
inline bool AllFinite(std::span<const float> values) {
  std::atomic<bool> finite = true;
  ForEachPart(values.size(), kPartElements, [&](size_t first, size_t end) {
    if (!simurgh::AllFinite(values.subspan(first, end - first))) finite = false;
  });
  return finite;
}

}  // namespace simurgh::cpu
