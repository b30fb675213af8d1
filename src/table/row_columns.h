#pragma once

#include <cstdint>
#include <vector>

#include "simurgh/config/table_config.h"
#include "simurgh/model/tensor_file.h"
#include "table/row_format.h"

namespace simurgh {

// A part of a row's values that a file stores as a tensor.
struct RowColumn {
  TensorSpec tensor;  // Its shape has no rows: {} or {D}.
  uint32_t offset;    // Bytes from the row's first weight.
  uint32_t bytes;
};

// The weights, then the optimizer's state: vectors, then scalars. Names of the state: those of
// sparse_optimizer.h, after the kind of the optimizer.
std::vector<RowColumn> ColumnsOf(const TableConfig& config);

}  // namespace simurgh
