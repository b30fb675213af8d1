#pragma once

// The vector kernels of a pull: search ids, copy the rows found, and fill new rows.

#include <cstddef>
#include <cstdint>
#include <span>

#include "table/encoded_matrix.h"
#include "table/row_index.h"
#include "table/row_layout.h"

namespace simurgh {

// Searches the home bucket of each id. Writes the hashes, and to `candidates` the first row whose
// tag matches, or kNoRow. Writes to `unsettled` the positions of ids that may be in another bucket,
// which it prefetches, and returns their number.
//
// Requires at most 65,536 ids and results of the same size.
size_t FindAtHome(const RowIndex::Homes& homes, std::span<const uint64_t> ids, uint64_t* hashes,
                  uint32_t* candidates, uint16_t* unsettled);

// Parameters of a pull that needs no conversion.
struct RowGather {
  Rows rows;
  uint32_t stamp;          // New recency of the rows read.
  uint32_t suspect_below;  // Skips rows of smaller recency,
  uint32_t open_from;      // and those of this recency or a larger one.
  uint64_t* ages;          // Counts by bit_width(stamp - recency), for every kAgeEvery-th position.
};

// Sampling interval of row ages, in positions of a request.
inline constexpr size_t kAgeEvery = 8;

// Copies the weights of candidates that are the rows of their ids to `out`, and updates recency and
// use counts. Skips positions without such a row, or with a suspect or an open one: writes them to
// `rest` and returns their number.
//
// Requires at most 65,536 ids; `out` in the table's dim and precision; candidates, `out` and `rest`
// of the same size.
size_t GatherRows(const RowGather& gather, std::span<const uint64_t> ids,
                  const uint32_t* candidates, EncodedRows out, uint16_t* rest);

// Numbers min(low + u * width, highest) with a 24-bit u in [0, 1).
struct UniformRange {
  float low;
  float width;
  float highest;  // Rounding of the sum could reach the excluded upper end.
};

struct UniformRow {
  uint64_t seed;
  float* row;
};

// Fills `dim` numbers of each row with draws of Random(seed), two numbers per draw: its upper 24
// bits and the next 24. One dispatch for all. Bit-identical on every target.
void FillUniform(const UniformRange& range, uint32_t dim, std::span<const UniformRow> rows);

}  // namespace simurgh
