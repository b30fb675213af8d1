#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "nn/cpu/compute_threads.h"

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

// Calls body(first, columns) for every tile.
template <typename Body>
void ForEachTile(size_t columns, const Body& body) {
  for (size_t first = 0; first < columns; first += kTileColumns) {
    body(first, std::min(kTileColumns, columns - first));
  }
}

// Computes the sums for any number of columns, on the compute threads.
template <typename Term>
void SumAllColumns(size_t rows, const Term& term, std::span<float> sums) {
  // Parts that stay in the cache. The order of sums depends only on the number of rows.
  constexpr size_t kPartRows = 256;
  const size_t columns = sums.size();
  const size_t parts = (rows + kPartRows - 1) / kPartRows;
  std::vector<double> sums_of_parts(parts * columns);
  const auto sum_part = [&](size_t part) {
    const size_t begin = part * kPartRows;
    ForEachTile(columns, [&](size_t first, size_t n) {
      SumColumns(
          std::min(kPartRows, rows - begin), n,
          [&term, begin, first](size_t row, size_t column) {
            return term(begin + row, first + column);
          },
          sums_of_parts.data() + part * columns + first);
    });
  };
  if (rows * columns < kPartElements) {
    for (size_t part = 0; part < parts; ++part) sum_part(part);
  } else {
    RunParts(parts, sum_part);
  }
  for (size_t column = 0; column < columns; ++column) {
    double sum = 0;
    for (size_t part = 0; part < parts; ++part) sum += sums_of_parts[part * columns + column];
    sums[column] = static_cast<float>(sum);
  }
}

}  // namespace simurgh::cpu
