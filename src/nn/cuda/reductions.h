#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "nn/cuda/reduction_kernels.h"

// Reductions composed of kernels.
namespace simurgh::cuda {

// sums[c] = the sum over all rows of term(r, c); zero without rows. partial: (SumBlocks(rows),
// columns), overwritten.
template <typename Executor, typename Term>
void SumColumns(Executor& executor, const Term& term, size_t rows, const Matrix<float>& partial,
                double* sums) {
  executor.ForEachCell(partial.rows, partial.columns, SumBlockCell<Term>{term, rows, partial});
  executor.ForEach(partial.columns, FinishColumnSum{partial, sums});
}

// Sums `values`. scratch: of the same length. Overwrites both. Returns the address of the sum.
template <typename Executor>
const double* SumValues(Executor& executor, double* values, size_t count, double* scratch) {
  while (count > 1) {
    const size_t groups = (count + kSumFan - 1) / kSumFan;
    executor.ForEach(groups, SumGroup{values, count, scratch});
    std::swap(values, scratch);
    count = groups;
  }
  return values;
}

// The sum of squares. parts, scratch: kSquareParts each.
template <typename Executor>
const double* SumSquares(Executor& executor, std::span<const float> values, double* parts,
                         double* scratch) {
  const size_t count = std::clamp<size_t>(values.size(), 1, kSquareParts);
  executor.ForEach(count, SquareSumPart{values.data(), values.size(), count, parts});
  return SumValues(executor, parts, count, scratch);
}

}  // namespace simurgh::cuda
