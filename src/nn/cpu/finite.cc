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

bool AllRowsFinite(MatrixView<const float> values) {
  if (values.contiguous()) return AllFinite(values.flat());
  std::atomic<bool> finite = true;
  ForEachPart(values.rows(), MinRows(values.columns()), [&](size_t first, size_t end) {
    for (size_t row = first; row < end; ++row) {
      if (!simurgh::AllFinite(values.row(row))) finite = false;
    }
  });
  return finite;
}

}  // namespace simurgh::cpu
