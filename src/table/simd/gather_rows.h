#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/table/coded_matrix.h"
#include "table/row_layout.h"

namespace simurgh {

// What a pull does with rows whose stored numbers are what is asked for.
struct RowGather {
  Rows rows;
  uint32_t stamp;          // Becomes the recency of the rows that are read.
  uint32_t suspect_below;  // Rows of smaller recency are left alone.
  uint64_t* ages;          // Counts by bit_width(stamp - recency), of every kAgeEvery-th position.
};

// Of how many positions of a request one is looked at for the age of its row.
inline constexpr size_t kAgeEvery = 8;

// Copies the weights of the candidates that are the rows of their ids to those of `out`, and stamps
// and counts the use; rows are fetched ahead. Positions without such a row, or of a suspect
// one, are left alone: returns how many, and writes them to `rest`.
//
// Requires at most 65,536 ids, as many rows of `out`, as wide as the table's and in its precision,
// as many candidates, each kNoRow or a row, and room for all in `rest`.
size_t GatherRows(const RowGather& gather, std::span<const uint64_t> ids,
                  const uint32_t* candidates, EncodedRows out, uint16_t* rest);

}  // namespace simurgh
