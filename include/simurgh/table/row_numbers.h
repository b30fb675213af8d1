#pragma once

#include <cstddef>
#include <span>

#include "simurgh/config/table_config.h"

namespace simurgh {

// Converts an encoded row to f32, exactly. to: (D)
void WidenRow(RowPrecision precision, const std::byte* row, std::span<float> to);

}  // namespace simurgh
