#pragma once

#include <algorithm>
#include <cstddef>

namespace simurgh::cpu {

// Columns per tile in reductions over the batch: a thousand rows of a tile fit into the L2 cache.
inline constexpr size_t kTileColumns = 64;

// Sets sums[c] to the sum of term(r, c) over all rows. Sums in f32 within blocks of rows and in f64
// between blocks: nearly as fast as f32, and the error does not grow with the batch. The order
// depends only on the number of rows. columns: at most kTileColumns.
template <typename Term>
void SumColumns(size_t rows, size_t columns, const Term& term, double* sums) {
  constexpr size_t kBlockRows = 64;
  std::fill_n(sums, columns, 0.0);
  for (size_t begin = 0; begin < rows; begin += kBlockRows) {
    const size_t end = std::min(rows, begin + kBlockRows);
    float partial[kTileColumns] = {};
    for (size_t row = begin; row < end; ++row) {
      for (size_t column = 0; column < columns; ++column) partial[column] += term(row, column);
    }
    for (size_t column = 0; column < columns; ++column) {
      sums[column] += static_cast<double>(partial[column]);
    }
  }
}

}  // namespace simurgh::cpu
