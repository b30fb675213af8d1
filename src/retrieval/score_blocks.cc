#include "retrieval/score_blocks.h"

#include <algorithm>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "nn/cpu/matmul.h"

namespace simurgh {

size_t ItemsOfBlock(size_t dim) {
  constexpr size_t kBlockBytes = size_t{512} << 10;
  constexpr size_t kUnit = 48;  // oneDNN's kernels compute as many at a time.
  const size_t items = kBlockBytes / (std::max<size_t>(dim, 1) * sizeof(float));
  return std::max<size_t>(items / kUnit, 1) * kUnit;
}

Status ScoreBlocks(MatrixView<const float> queries, MatrixView<const float> items,
                   absl::FunctionRef<void(size_t first, MatrixView<float> scores)> work) {
  SIMURGH_CHECK_EQ(queries.columns(), items.columns());
  if (queries.rows() == 0) return absl::OkStatus();
  const size_t dim = items.columns();
  const size_t most = std::min(ItemsOfBlock(dim), std::max<size_t>(items.rows(), 1));
  thread_local AlignedBuffer buffer;
  const size_t bytes = queries.rows() * most * sizeof(float);
  if (buffer.size() < bytes) buffer = AlignedBuffer(bytes);
  for (size_t first = 0; first < items.rows(); first += most) {
    const size_t count = std::min(most, items.rows() - first);
    const MatrixView<float> scores(reinterpret_cast<float*>(buffer.data()), queries.rows(), count);
    SIMURGH_RETURN_IF_ERROR(cpu::Multiply({.matrix = queries},
                                          {.matrix = items.Rows(first, count), .transposed = true},
                                          dim, /*beta=*/0, scores));
    work(first, scores);
  }
  return absl::OkStatus();
}

}  // namespace simurgh
