#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "table/row_layout.h"
#include "table/simd/row_update.h"

namespace simurgh {

// The values of a row that is not all f32, its gradient, and the seed of its rounding.
struct EncodedRow {
  std::byte* values;
  const float* gradient;
  uint64_t noise;
};

// Converts each row to f32, applies the rule and stores the result with stochastic rounding; values
// beyond the largest finite number saturate. A row that would not be finite keeps its numbers. Rows
// are updated in order, with one dispatch for all. Requires at most kMaxUpdatedRows rows.
// Bit-identical on every target.
NotFinite UpdateEncodedRows(const RowUpdateParameters& parameters, const RowFormat& format,
                            std::span<const EncodedRow> rows);

struct RowConversion {
  const std::byte* from;
  std::byte* to;
};

// Copies the first `count` numbers of each row, rounded to nearest (ties away from zero; values
// beyond the largest finite number saturate). One dispatch for all. Requires finite numbers unless
// the precisions are equal. Bit-identical on every target.
void ConvertRows(RowPrecision from, RowPrecision to, uint32_t count,
                 std::span<const RowConversion> rows);

// Converts a row to f32. to: format.floats() numbers, weights and then state.
void DecodeRow(const RowFormat& format, const std::byte* values, float* to);

// Stores a new row, rounded to nearest.
void EncodeNewRow(const RowFormat& format, const float* from, std::byte* values);

}  // namespace simurgh
