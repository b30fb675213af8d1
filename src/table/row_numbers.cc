#include "simurgh/table/row_numbers.h"

#include "table/simd/encoded_rows.h"

namespace simurgh {

void WidenRow(RowPrecision precision, const std::byte* row, std::span<float> to) {
  const RowConversion conversion{.from = row, .to = reinterpret_cast<std::byte*>(to.data())};
  ConvertRows(precision, RowPrecision::kF32, static_cast<uint32_t>(to.size()),
              std::span(&conversion, 1));
}

}  // namespace simurgh
