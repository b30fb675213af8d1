#include "table/row_layout.h"

#include <span>
#include <string_view>

#include "table/row_store.h"
#include "table/update_rules.h"

namespace simurgh {
namespace {

DType TypeOf(RowPrecision precision) {
  switch (precision) {
    case RowPrecision::kF32:
      return DType::kF32;
    case RowPrecision::kBf16:
      return DType::kU16;
    case RowPrecision::kF16:
      return DType::kF16;
  }
  return DType::kF32;
}

}  // namespace

std::vector<RowColumn> ColumnsOf(const TableConfig& config) {
  const RowFormat format = RowStore::FormatOf(config);
  std::vector<RowColumn> columns = {
      {{"weights", TypeOf(format.weights), {format.dim}}, 0, format.weight_bytes()}};
  const auto names = StateNamesOf(ParametersOf(config).rule);
  const uint32_t vector_bytes = format.dim * SizeOf(format.state);
  uint32_t offset = format.state_offset();
  for (uint32_t i = 0; i < format.shape.vectors; ++i, offset += vector_bytes) {
    columns.push_back(
        {{std::string(names[i]), TypeOf(format.state), {format.dim}}, offset, vector_bytes});
  }
  offset = format.scalars_offset();
  for (size_t i = format.shape.vectors; i < names.size(); ++i, offset += sizeof(float)) {
    columns.push_back({{std::string(names[i]), DType::kF32, {}}, offset, sizeof(float)});
  }
  return columns;
}

}  // namespace simurgh
