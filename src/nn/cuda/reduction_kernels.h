#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"

// Reductions without shared memory: each call sums one part, and a second launch adds the parts.
// The order of additions depends only on the sizes.
namespace simurgh::cuda {

// Rows that one call sums in f32; sums of blocks are in f64.
inline constexpr size_t kSumBlockRows = 64;

inline size_t SumBlocks(size_t rows) { return (rows + kSumBlockRows - 1) / kSumBlockRows; }

// partial(k, c) = the sum over block k of rows of term(r, c). Called for each (block, column).
template <typename Term>
struct SumBlockCell {
  Term term;
  size_t rows;
  Matrix<float> partial;

  SIMURGH_HOST_DEVICE void operator()(size_t block, size_t column) const {
    const size_t begin = block * kSumBlockRows;
    const size_t end = begin + kSumBlockRows < rows ? begin + kSumBlockRows : rows;
    float sum = 0.0F;
    for (size_t row = begin; row < end; ++row) sum += term(row, column);
    partial(block, column) = sum;
  }
};

// sums[c] = the sum of partial's column. Called for each column.
struct FinishColumnSum {
  Matrix<float> partial;
  double* sums;

  SIMURGH_HOST_DEVICE void operator()(size_t column) const {
    double sum = 0;
    for (size_t block = 0; block < partial.rows; ++block) {
      sum += static_cast<double>(partial(block, column));
    }
    sums[column] = sum;
  }
};

// quotients[c] = sums[c] / divisor. Called for each column.
struct DivideSum {
  const double* sums;
  double divisor;
  float* quotients;

  SIMURGH_HOST_DEVICE void operator()(size_t column) const {
    quotients[column] = static_cast<float>(sums[column] / divisor);
  }
};

template <typename T>
struct ValueTerm {
  Matrix<const T> values;

  SIMURGH_HOST_DEVICE float operator()(size_t row, size_t column) const {
    return ToFloat(values(row, column));
  }
};

// Values that a call of SumGroup adds.
inline constexpr size_t kSumFan = 32;

// to[i] = from[32 i] + ... + from[32 i + 31], up to the end of `from`. Called for each i.
struct SumGroup {
  const double* from;
  size_t count;
  double* to;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    const size_t begin = i * kSumFan;
    const size_t end = begin + kSumFan < count ? begin + kSumFan : count;
    double sum = 0;
    for (size_t k = begin; k < end; ++k) sum += from[k];
    to[i] = sum;
  }
};

// Partial sums of squares of a long vector. Call i reads every `parts`-th value from the i-th, so
// adjacent threads read adjacent values.
inline constexpr size_t kSquareParts = 16'384;

struct SquareSumPart {
  const float* values;
  size_t count;
  size_t parts;
  double* sums;

  SIMURGH_HOST_DEVICE void operator()(size_t part) const {
    double sum = 0;
    for (size_t i = part; i < count; i += parts) {
      sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    sums[part] = sum;
  }
};

SIMURGH_HOST_DEVICE inline bool IsFinite(float value) {
  return (std::bit_cast<uint32_t>(value) & 0x7f800000U) != 0x7f800000U;
}

// Sets the flag if a value is NaN or infinite. All calls write the same value.
struct FindNonFinite {
  const float* values;
  uint32_t* flag;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    if (!IsFinite(values[i])) *flag = 1;
  }
};

}  // namespace simurgh::cuda

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
