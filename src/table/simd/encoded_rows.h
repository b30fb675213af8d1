#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/base/hash.h"
#include "table/row_format.h"
#include "table/simd/row_update.h"

namespace simurgh {

// A row whose numbers are not all f32: what follows its header, the gradient for it, and what its
// rounding draws from.
struct CodedRow {
  std::byte* values;
  const float* gradient;
  uint64_t noise;
};

// Widens each row to f32, applies the rule, and stores what comes of it, rounded by chance: up with
// a probability that is the share of the way to the next number of the format. Values beyond the
// largest finite number become it. Rows are handled in order, one dispatch for all.
//
// Every target gives the bits of UpdateCodedRowReference.
void UpdateEncodedRows(const RowUpdateParameters& parameters, const RowFormat& format,
                       std::span<const CodedRow> rows);

void UpdateCodedRowReference(const RowUpdateParameters& parameters, const RowFormat& format,
                             const CodedRow& row);

// Numbers to copy from one precision to another.
struct RowConversion {
  const std::byte* from;
  std::byte* to;
};

// Copies the first `count` numbers of each row, rounded to the nearest number of the new precision
// (in the middle, away from zero; beyond the largest finite number, to it). One dispatch for all.
// Requires finite numbers where bits change.
//
// Every target gives the bits of ConvertRowReference.
void ConvertRows(RowPrecision from, RowPrecision to, uint32_t count,
                 std::span<const RowConversion> rows);

void ConvertRowReference(RowPrecision from, RowPrecision to, uint32_t count,
                         const RowConversion& row);

// Widens all numbers of a row: `to` is format.floats() floats, weights and then state.
void DecodeRow(const RowFormat& format, const std::byte* values, float* to);

// Stores a new row, rounded to the nearest numbers of the format.
void EncodeNewRow(const RowFormat& format, const float* from, std::byte* values);

// Most floats of a row: Adam's.
inline constexpr uint32_t kMaxRowFloats = 3 * kMaxRowDim + 2;

}  // namespace simurgh
