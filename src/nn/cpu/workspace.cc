#include "nn/cpu/workspace.h"

namespace simurgh::cpu {

void Workspace::PrepareTraining(size_t rows) {
  PreparePrediction(rows);
  Reserve(gradients_);
}

void Workspace::PreparePrediction(size_t rows) {
  rows_ = rows;
  Reserve(values_);
}

void Workspace::Reserve(Block& block) const {
  if (rows_ <= block.capacity_rows) return;
  constexpr size_t kLine = kBufferAlignment / sizeof(float);
  const size_t capacity_rows = (rows_ + kLine - 1) / kLine * kLine;
  block = Block{};  // Frees the old memory first.
  block.buffer = AlignedBuffer(capacity_rows * width_ * sizeof(float));
  block.capacity_rows = capacity_rows;
}

MatrixView<float> Workspace::View(const Block& block, size_t column, size_t width) const {
  float* base = reinterpret_cast<float*>(block.buffer.data());
  return {base + column * block.capacity_rows, rows_, width};
}

}  // namespace simurgh::cpu
