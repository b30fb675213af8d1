#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/table/encoded_matrix.h"
#include "table/row_layout.h"

namespace simurgh {

// Parameters of a pull that needs no conversion.
struct RowGather {
  Rows rows;
  uint32_t stamp;          // New recency of the rows read.
  uint32_t suspect_below;  // Skips rows of smaller recency.
  uint64_t* ages;          // Counts by bit_width(stamp - recency), for every kAgeEvery-th position.
};

// Sampling interval of row ages, in positions of a request.
inline constexpr size_t kAgeEvery = 8;

// Copies the weights of candidates that are the rows of their ids to `out`, and updates recency and
// use counts. Skips positions without such a row or with a suspect one: writes them to `rest` and
// returns their number.
//
// Requires at most 65,536 ids; `out` in the table's dim and precision; candidates, `out` and `rest`
// of the same size.
size_t GatherRows(const RowGather& gather, std::span<const uint64_t> ids,
                  const uint32_t* candidates, EncodedRows out, uint16_t* rest);

}  // namespace simurgh
