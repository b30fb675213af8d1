#include "nn/cpu/dropout.h"

#include <cstddef>
#include <cstdint>

#include "nn/cpu/compute_threads.h"

namespace simurgh::cpu {

void Drop(const DropoutMask& mask, MatrixView<const float> from, MatrixView<float> to) {
  ForEachPart(from.rows(), MinRows(from.columns()), [=](size_t first, size_t end) {
    const auto columns = static_cast<uint32_t>(from.columns());
    for (size_t row = first; row < end; ++row) {
      const uint64_t key = mask.RowKey(row);
      const float* x = from.row(row).data();
      float* y = to.row(row).data();
      for (uint32_t c = 0; c < columns; ++c) y[c] = x[c] * mask.Factor(key, c);
    }
  });
}

}  // namespace simurgh::cpu
