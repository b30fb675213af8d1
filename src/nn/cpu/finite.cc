#include "nn/cpu/finite.h"

#include <atomic>

#include "nn/cpu/compute_threads.h"
#include "simurgh/tensor/finite.h"

namespace simurgh::cpu {

bool AllFinite(std::span<const float> values) {
  std::atomic<bool> finite = true;
  ForEachPart(values.size(), kPartElements, [&](size_t first, size_t end) {
    if (!simurgh::AllFinite(values.subspan(first, end - first))) finite = false;
  });
  return finite;
}

}  // namespace simurgh::cpu
