#pragma once

#include <cstddef>
#include <span>

#include "simurgh/config/table_config.h"

namespace simurgh {

// The numbers of a row as they travel, as f32: exact. to: as many as the row has.
void WidenRow(RowPrecision precision, const std::byte* row, std::span<float> to);

}  // namespace simurgh
