#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "tensor/finite.h"

// Reductions without shared memory: each call sums one part, and later launches add the parts. The
// order of additions depends only on the sizes.
namespace simurgh::cuda {

// Rows that one call sums in f32; sums of blocks are in f64.
inline constexpr size_t kSumBlockRows = 64;

inline size_t SumBlocks(size_t rows) { return (rows + kSumBlockRows - 1) / kSumBlockRows; }

// partial(k, c) = the sum over block k of rows of term(r, c). Called for each (block, column). A
// term is a PackKernel whose Of<N>(row, column) returns N values.
template <typename Term>
struct SumBlockCell {
  static constexpr size_t kPack = Term::kPack;

  Term term;
  size_t rows;
  Matrix<float> partial;

  bool Packs() const { return term.Packs(); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t block, size_t column) const {
    const size_t begin = block * kSumBlockRows;
    const size_t end = begin + kSumBlockRows < rows ? begin + kSumBlockRows : rows;
    Pack<float, N> sums{};
    for (size_t row = begin; row < end; ++row) {
      const Pack<float, N> values = term.template Of<N>(row, column);
      for (size_t k = 0; k < N; ++k) sums[k] += values[k];
    }
    for (size_t k = 0; k < N; ++k) partial(block, column + k) = sums[k];
  }
};

// Columns that a thread sums: larger packs would leave too few threads.
template <typename T>
inline constexpr size_t kSumPack = 4 / sizeof(T);

// Values that a call adds in later launches.
inline constexpr size_t kSumFan = 32;

inline size_t SumGroups(size_t rows) { return (SumBlocks(rows) + kSumFan - 1) / kSumFan; }

// groups(g, c) = the sum of rows 32 g to 32 g + 31 of partial. Called for each (group, column).
struct SumGroupCell {
  Matrix<float> partial;
  Matrix<double> groups;

  SIMURGH_HOST_DEVICE void operator()(size_t group, size_t column) const {
    const size_t begin = group * kSumFan;
    const size_t end = begin + kSumFan < partial.rows ? begin + kSumFan : partial.rows;
    double sum = 0;
    for (size_t row = begin; row < end; ++row) sum += static_cast<double>(partial(row, column));
    groups(group, column) = sum;
  }
};

// Sums of columns, in f64 and, unless null, in f32.
struct ColumnSums {
  double* sums;
  float* rounded = nullptr;
};

// The sum of each column of `parts`. Called for each column.
template <typename Part>
struct FinishColumnSum {
  Matrix<Part> parts;
  ColumnSums to;

  SIMURGH_HOST_DEVICE void operator()(size_t column) const {
    double sum = 0;
    for (size_t row = 0; row < parts.rows; ++row) sum += static_cast<double>(parts(row, column));
    to.sums[column] = sum;
    if (to.rounded != nullptr) to.rounded[column] = static_cast<float>(sum);
  }
};

// The number of rows that a mean is of.
struct RowCount {
  double known = 0;                 // From the batch's size.
  const double* counted = nullptr;  // Null, or in device memory, because it depends on the data.

  // Returns the number; 1 if no row was counted, so that means are 0.
  SIMURGH_HOST_DEVICE double Divisor() const {
    return counted == nullptr ? known : *counted > 0 ? *counted : 1.0;
  }
};

// means[c] = sums[c] / number of rows. Called for each column.
struct FindMean {
  const double* sums;
  RowCount rows;
  float* means;

  SIMURGH_HOST_DEVICE void operator()(size_t column) const {
    means[column] = static_cast<float>(sums[column] / rows.Divisor());
  }
};

template <typename T>
struct ValueTerm {
  static constexpr size_t kPack = kSumPack<T>;

  Matrix<const T> values;

  bool Packs() const { return AllPack<kPack>(values); }

  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Of(size_t row, size_t column) const {
    const auto pack = values.template Load<N>(row, column);
    Pack<float, N> wide;
    for (size_t k = 0; k < N; ++k) wide[k] = ToFloat(pack[k]);
    return wide;
  }
};

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

// Lanes of ForEachSum: adjacent threads that read one row.
inline constexpr size_t kSumLanes = 32;

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

// Returns whether a gradient is usable; see simurgh::AllUsable().
SIMURGH_HOST_DEVICE inline bool IsUsable(float gradient) {
  return (std::bit_cast<uint32_t>(gradient) & 0x7fffffffU) < kUselessGradient;
}

// Sets the flag if a gradient is not usable. All calls write the same value.
struct FindNonFinite {
  static constexpr size_t kPack = kPackOf<float>;

  Matrix<const float> values;
  uint32_t* flag;

  bool Packs() const { return AllPack<kPack>(values); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto pack = values.template Load<N>(row, column);
    for (size_t k = 0; k < N; ++k) {
      if (!IsUsable(pack[k])) *flag = 1;
    }
  }
};

}  // namespace simurgh::cuda

// Reductions composed of kernels.
namespace simurgh::cuda {

// Memory for partial sums of columns: (SumBlocks(rows), columns) and (SumGroups(rows), columns).
struct ColumnScratch {
  Matrix<float> partial;
  Matrix<double> groups;
};

// Finishes the sums of scratch.partial's columns.
template <typename Executor>
void FinishColumns(Executor& executor, const ColumnScratch& scratch, const ColumnSums& to) {
  const auto& [partial, groups] = scratch;
  if (partial.rows <= kSumFan) {
    return executor.ForEach(partial.columns, FinishColumnSum<float>{partial, to});
  }
  executor.ForEachCell(groups.rows, groups.columns, SumGroupCell{partial, groups});
  executor.ForEach(groups.columns, FinishColumnSum<double>{groups, to});
}

// Sums of term(r, c) over all rows; zero without rows.
template <typename Executor, typename Term>
void SumColumns(Executor& executor, const Term& term, size_t rows, const ColumnScratch& scratch,
                const ColumnSums& to) {
  const Matrix<float>& partial = scratch.partial;
  executor.ForEachCell(partial.rows, partial.columns, SumBlockCell<Term>{term, rows, partial});
  FinishColumns(executor, scratch, to);
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
