#include "table/row_layout.h"

#include <array>
#include <span>
#include <string_view>

#include "base/check.h"
#include "table/row_store.h"
#include "table/sparse_optimizer.h"

namespace simurgh {
namespace {

std::span<const std::string_view> StateNames(RowUpdateRule rule) {
  static constexpr std::array<std::string_view, 1> kMomentum = {"momentum.v"};
  static constexpr std::array<std::string_view, 1> kAdagrad = {"adagrad.s"};
  static constexpr std::array<std::string_view, 3> kAdam = {"adam.m", "adam.v", "adam.n"};
  static constexpr std::array<std::string_view, 2> kFtrl = {"ftrl.z", "ftrl.s"};
  switch (rule) {
    case RowUpdateRule::kSgd:
      return {};
    case RowUpdateRule::kMomentum:
    case RowUpdateRule::kNesterov:
      return kMomentum;
    case RowUpdateRule::kAdagrad:
    case RowUpdateRule::kRowWiseAdagrad:
      return kAdagrad;
    case RowUpdateRule::kAdam:
    case RowUpdateRule::kRowWiseAdam:
      return kAdam;
    case RowUpdateRule::kFtrl:
    case RowUpdateRule::kGroupFtrl:
      return kFtrl;
  }
  return {};
}

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
  const auto names = StateNames(ParametersOf(config).rule);
  SIMURGH_CHECK_EQ(names.size(), format.shape.vectors + format.shape.scalars);
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
