#pragma once

#include <cstdint>
#include <span>

#include "table/simd/encoded_rows.h"
#include "table/simd/pull_rows.h"
#include "table/simd/row_update.h"

namespace simurgh {

// The results that the kernels of table/simd must have, bit by bit.
void UpdateRowReference(const RowUpdateParameters& parameters, const RowGradient& row);
void UpdateEncodedRowReference(const RowUpdateParameters& parameters, const RowFormat& format,
                               const EncodedRow& row);
void ConvertRowReference(RowPrecision from, RowPrecision to, uint32_t count,
                         const RowConversion& row);
void FillUniformReference(uint64_t row_seed, const UniformRange& range, std::span<float> row);

}  // namespace simurgh
