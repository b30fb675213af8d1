#include "nn/cpu/workspace.h"

namespace simurgh::cpu {

void Workspace::Prepare(size_t rows) {
  rows_ = rows;
  if (rows <= capacity_rows_) return;
  constexpr size_t kLine = kBufferAlignment / sizeof(float);
  const size_t capacity_rows = (rows + kLine - 1) / kLine * kLine;
  capacity_rows_ = 0;
  buffer_ = AlignedBuffer();  // Frees the old memory first.
  buffer_ = AlignedBuffer(capacity_rows * width_ * sizeof(float));
  capacity_rows_ = capacity_rows;
}

}  // namespace simurgh::cpu
